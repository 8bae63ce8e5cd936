"""The forms of a page, as a browser without scripts reads them."""

from html.parser import HTMLParser

import msgspec


class Form(msgspec.Struct):
    """A form: where it goes and what it carries."""

    id: str
    action: str
    fields: dict[str, str] = {}
    buttons: dict[str, tuple[str, str]] = {}
    """The name and the value of each, by its id."""


class _Forms(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.found: list[Form] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = {name: value or "" for name, value in attrs}
        if tag == "form":
            self.found.append(Form(given.get("id", ""), given.get("action", "")))
        elif self.found and tag == "input" and given.get("name"):
            self.found[-1].fields[given["name"]] = given.get("value", "")
        elif self.found and tag == "button":
            self.found[-1].buttons[given.get("id", "")] = (given.get("name", ""), given.get("value", ""))


def forms_of(page: str) -> dict[str, Form]:
    """By their ids."""
    parser = _Forms()
    parser.feed(page)
    return {form.id: form for form in parser.found}
