// Passkeys on the sign-in page and on the page where people keep them (WebAuthn Level 3).
"use strict";
(() => {
  const prefix = new URL(document.currentScript.src).pathname.replace(/\/assets\/[^/]*$/, "");
  // Shorter than a challenge lives: what the user name field offers is always good.
  const RENEW = 240000;

  const element = (id) => document.getElementById(id);
  const bytes = (text) => Uint8Array.from(atob(text.replace(/-/g, "+").replace(/_/g, "/")), (c) => c.charCodeAt(0));
  const text = (buffer) => {
    let binary = "";
    for (const byte of new Uint8Array(buffer)) binary += String.fromCharCode(byte);
    return btoa(binary).replace(/\+/g, "-").replace(/\//g, "_").replace(/=+$/, "");
  };
  const descriptors = (list) => (list || []).map((one) => ({ ...one, id: bytes(one.id) }));

  const send = async (path, body) => {
    const reply = await fetch(`${prefix}/api/auth/${path}`, {
      method: "POST",
      headers: { "Content-Type": "application/json" },
      body: JSON.stringify(body),
    });
    const said = await reply.json().catch(() => ({}));
    if (reply.ok) return said;
    if (said.change_password_url) location.assign(said.change_password_url);
    const problem = new Error(said.error_description || "");
    problem.name = "Refused";
    problem.code = said.error;
    throw problem;
  };

  const sentence = (words) => words.charAt(0).toUpperCase() + words.slice(1) + (/[.!?]$/.test(words) ? "" : ".");
  // What the service answers is English; the page has the same in its language, in words that tell less.
  const english = document.documentElement.lang.startsWith("en");
  const refused = (place, error) => (english && error.message ? sentence(error.message) : place[error.code]);
  const say = (place, output, error) => {
    const known = { Refused: refused(place, error), NotAllowedError: place.cancelled, AbortError: place.cancelled,
      InvalidStateError: place.known, SecurityError: place.unsuited, NotSupportedError: place.unsuited };
    output.textContent = known[error.name] || place.failed;
    output.hidden = false;
  };

  const signInPage = () => {
    const place = element("with-passkey");
    const button = element("use-passkey");
    const problem = element("problem-passkey");
    const username = element("username");
    let waiting = null;

    const ask = async (name, more) => {
      const begun = await send("passkey/begin", name ? { username: name } : {});
      const options = begun.publicKey;
      const publicKey = { ...options, challenge: bytes(options.challenge), allowCredentials: descriptors(options.allowCredentials) };
      return { begun, found: await navigator.credentials.get({ publicKey, ...more }) };
    };

    const finish = async ({ begun, found }) => {
      const { clientDataJSON, authenticatorData, signature, userHandle } = found.response;
      const response = {
        clientDataJSON: text(clientDataJSON), authenticatorData: text(authenticatorData), signature: text(signature),
        ...(userHandle && userHandle.byteLength ? { userHandle: text(userHandle) } : {}),
      };
      const hidden = document.querySelector("#login-form input[name=return_to]");
      const done = await send("passkey/complete", {
        challenge_id: begun.challenge_id, id: found.id, rawId: text(found.rawId), type: found.type, response,
        ...(hidden ? { return_to: hidden.value } : {}),
      });
      location.assign(done.return_to);
    };

    // The browser offers the passkeys that it has in the user name field, and waits for a choice. What fails before one is not tried again.
    const offer = async () => {
      const mine = new AbortController();
      waiting = mine;
      const timer = setTimeout(() => { mine.abort(); offer(); }, RENEW);
      try {
        const answered = await ask("", { mediation: "conditional", signal: mine.signal });
        // The button was faster; two sign-ins of one page would end each other.
        if (mine.signal.aborted) return;
        button.disabled = true;
        try {
          await finish(answered);
        } catch (error) {
          say(place.dataset, problem, error);
          button.disabled = false;
          offer();
        }
      } catch {
        // Aborted, or there is nothing to offer: the form and the button are there.
      } finally {
        clearTimeout(timer);
      }
    };

    const start = async () => {
      place.hidden = false;
      const can = PublicKeyCredential.isConditionalMediationAvailable;
      if (can && await can.call(PublicKeyCredential)) offer();
    };

    button.addEventListener("click", async () => {
      problem.hidden = true;
      button.disabled = true;
      if (waiting) waiting.abort();
      try {
        await finish(await ask(username.value.trim(), {}));
      } catch (error) {
        say(place.dataset, problem, error);
        if (waiting) offer();
      } finally {
        button.disabled = false;
      }
    });
    start();
  };

  const ownPage = () => {
    const form = element("add-passkey");
    const problem = element("problem-passkey");
    element("with-passkey").hidden = false;
    form.addEventListener("submit", async (event) => {
      event.preventDefault();
      const button = form.querySelector("button");
      problem.hidden = true;
      button.disabled = true;
      try {
        const begun = await send("passkey/register/begin", {});
        const options = begun.publicKey;
        const made = await navigator.credentials.create({ publicKey: {
          ...options, challenge: bytes(options.challenge), user: { ...options.user, id: bytes(options.user.id) },
          excludeCredentials: descriptors(options.excludeCredentials),
        } });
        const { clientDataJSON, attestationObject } = made.response;
        await send("passkey/register/complete", {
          challenge_id: begun.challenge_id, id: made.id, rawId: text(made.rawId), type: made.type, label: element("label").value,
          response: {
            clientDataJSON: text(clientDataJSON), attestationObject: text(attestationObject),
            transports: made.response.getTransports ? made.response.getTransports() : [],
          },
        });
        location.reload();
      } catch (error) {
        say(element("with-passkey").dataset, problem, error);
        button.disabled = false;
      }
    });
  };

  const unsuited = !window.PublicKeyCredential || !window.isSecureContext;
  if (element("add-passkey")) {
    if (unsuited) element("unsuited").hidden = false;
    else ownPage();
  } else if (!unsuited && element("use-passkey")) signInPage();
})();
