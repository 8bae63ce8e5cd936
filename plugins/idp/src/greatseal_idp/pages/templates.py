"""Templates in every language: what stands between ``{% trans %}`` and ``{% endtrans %}`` is translated when a template is compiled."""

import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from jinja2 import BaseLoader, Environment, PackageLoader, StrictUndefined, TemplateNotFound, nodes
from jinja2.compiler import CodeGenerator, Frame
from jinja2.ext import InternationalizationExtension
from jinja2.nodes import Node
from markupsafe import Markup

from greatseal.api.languages import Language
from greatseal.api.messages import Message
from greatseal.api.moments import day_and_time

OWN = "greatseal_idp"
"""The package of templates that are named without one."""
_PLACE = re.compile(r"%\((\w+)\)s|%%")


class Templates:
    """One environment for each language, made when somebody first wants it.

    ``globals`` are there in every template, and so is what ``words`` has for its language.
    """

    def __init__(self, words: Callable[[Language], Mapping[str, object]], **globals: object) -> None:
        self._words = words
        self._loader = _Packages()
        self._globals = globals
        self._environments: dict[str, Environment] = {}

    def body(self, language: Language, template: str, **values: object) -> bytes:
        """The page as UTF-8."""
        environment = self._environments.get(language.tag)
        if environment is None:
            environment = self._environments[language.tag] = self._environment(language)
        return environment.get_template(template).render(values).encode("utf-8", "replace")

    def _environment(self, language: Language) -> Environment:
        environment = Environment(
            loader=self._loader,
            autoescape=True,
            undefined=StrictUndefined,
            trim_blocks=True,
            lstrip_blocks=True,
            auto_reload=False,
            extensions=[_Translated],
            # As text, a Message is English already.
            finalize=None if language.plain else lambda value: language.text(value) if type(value) is Message else value,
        )
        environment.code_generator_class = _Generator
        environment.policies["ext.i18n.trimmed"] = True
        environment.extend(language=language)
        install: Any = environment
        install.install_gettext_callables(language.pattern, language.pattern, newstyle=True)
        environment.filters.update(
            day_and_time=day_and_time,
            sentence=lambda text: _in_english(text) if isinstance(text, str) and language.tag != "en" else sentence(language.text(text)),
            known=language.known,
            text=language.text,
        )
        environment.globals.update(self._globals, lang=language.tag, rtl=language.rtl, **self._words(language))
        return environment


class _Packages(BaseLoader):
    """``<package>/<file>`` is a file of the folder ``templates`` of the package."""

    def __init__(self) -> None:
        self._loaders: dict[str, PackageLoader] = {}

    def get_source(self, environment: Environment, template: str) -> tuple[str, str | None, Callable[[], bool] | None]:
        package, slash, file = template.partition("/")
        if not slash:
            package, file = OWN, template
        loader = self._loaders.get(package)
        if loader is None:
            try:
                loader = self._loaders[package] = PackageLoader(package)
            except (ImportError, ValueError) as error:
                raise TemplateNotFound(template, f"the package {package} has no folder templates: {error}") from None
        return loader.get_source(environment, file)


class _Generator(CodeGenerator):
    """Writes out at once what stands side by side: a translation and the text around it."""

    def blockvisit(self, nodes: Iterable[Node], frame: Frame) -> None:
        super().blockvisit(_joined(nodes), frame)


def _joined(written: Iterable[Node]) -> list[Node]:
    found: list[Node] = []
    for node in written:
        if isinstance(node, nodes.Output) and found and isinstance(found[-1], nodes.Output):
            found[-1] = nodes.Output([*found[-1].nodes, *node.nodes], lineno=found[-1].lineno)
        else:
            found.append(node)
    return found


class _Translated(InternationalizationExtension):
    """Puts translations in when a template is compiled: a page costs the same in every language. Plurals are looked up when it is made."""

    def _make_node(
        self,
        singular: str,
        plural: str | None,
        context: str | None,
        variables: Mapping[str, nodes.Expr],
        plural_expr: nodes.Expr | None,
        *more: bool,
    ) -> nodes.Output:
        if plural is not None or context is not None:
            return super()._make_node(singular, plural, context, dict(variables), plural_expr, *more)
        language: Language = getattr(self.environment, "language")  # noqa: B009  # mypy does not know it
        pattern = language.pattern(singular)
        if any(place[1] not in variables for place in _PLACE.finditer(pattern) if place[1]):
            pattern = singular  # a translation that says what is not there
        return nodes.Output(list(_parts(pattern, variables)))


def _parts(pattern: str, variables: Mapping[str, nodes.Expr]) -> "list[nodes.Expr]":
    found: list[nodes.Expr] = []
    end = 0
    for place in _PLACE.finditer(pattern):
        found.append(nodes.TemplateData(pattern[end : place.start()]))
        found.append(variables[place[1]] if place[1] else nodes.TemplateData("%"))
        end = place.end()
    return [*found, nodes.TemplateData(pattern[end:])]


def _in_english(text: str) -> Markup:
    """What no catalogue has, for developers mostly, on a page in another language."""
    return Markup('<span lang="en" dir="ltr">{}</span>').format(sentence(text))


def sentence(text: str) -> str:
    """A detail of a refusal as a sentence; one that begins with the name of a parameter keeps it."""
    begin = text[:1].upper() if text.partition(" ")[0].isalpha() else text[:1]
    return f"{begin}{text[1:]}{'' if text.endswith(('.', '?', '!', '。', '؟')) else '.'}"
