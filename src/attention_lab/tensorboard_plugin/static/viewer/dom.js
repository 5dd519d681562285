/** Make elements without parsing markup: all text becomes text nodes. */

/**
 * @param {string} name tag, with classes: "div.al-bar"
 * @param {Object} [properties] its properties; "on..." are listeners, "data-..." and "aria-..." are attributes
 * @param {...(Node|string)} children
 */
export function make(name, properties = {}, ...children) {
  const [tag, ...classes] = name.split(".");
  const element = document.createElement(tag);
  element.className = classes.join(" ");
  for (const [key, value] of Object.entries(properties)) {
    if (key.startsWith("on")) element.addEventListener(key.slice(2), value);
    else if (key.includes("-") || key === "role") element.setAttribute(key, value);
    else element[key] = value;
  }
  element.append(...children);
  return element;
}

/** For screen readers, what a button does if its text is only a sign; after its text if that can be spoken, such as 0–1. */
export function spoken(text, title) {
  if (/\p{L}/u.test(text)) return {};
  return { "aria-label": /\d/u.test(text) ? `${text}: ${title}` : title };
}

/** A row of buttons, one of which is chosen. */
export class Choice {
  /**
   * @param {string} label for screen readers
   * @param {function(string): void} choose called with the value of the pressed button
   */
  constructor(label, choose) {
    this.element = make("div.al-choice", { role: "group", "aria-label": label });
    this.choose = choose;
    this.shape = "";
  }

  /** @param {[string, string, string][]} options value, text, and description */
  update(options, chosen) {
    const shape = options.map(([value]) => value).join();
    if (shape !== this.shape) {
      this.shape = shape;
      this.element.replaceChildren(
        ...options.map(([value, text, title]) =>
          make("button", {
            type: "button",
            textContent: text,
            title,
            ...spoken(text, title),
            "data-value": value,
            onclick: () => this.choose(value),
          }),
        ),
      );
    }
    for (const button of this.element.children) {
      button.setAttribute("aria-pressed", String(button.dataset.value === chosen));
    }
    this.element.hidden = options.length < 2;
  }
}

/** A labelled list to pick from. */
export class Picker {
  constructor(label, choose) {
    this.select = make("select", { "aria-label": label, onchange: () => choose(this.select.value) });
    this.name = make("span", { textContent: label });
    this.element = make("label.al-picker", {}, this.name, this.select);
    this.shape = "";
  }

  /** @param {[string, string, string][]} options value, text, and the full text if it is shortened */
  update(options, chosen) {
    const shape = JSON.stringify(options);
    if (shape !== this.shape) {
      this.shape = shape;
      this.select.replaceChildren(
        ...options.map(([value, text, full = ""]) =>
          make("option", { value, textContent: text, title: full }),
        ),
      );
    }
    this.select.value = chosen;
    this.element.classList.toggle("al-wide", options.some(([, text]) => text.length > 18));
    this.select.title = this.select.selectedOptions[0]?.title ?? "";
  }
}
