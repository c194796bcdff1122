// Elements in one expression, and the few pictures on buttons.

/** Make an element. Attributes that are functions are listeners, `true` is an empty attribute. */
export function element(tag, attributes = {}, ...children) {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (typeof value === "function") made.addEventListener(name, value);
    else if (value === true) made.setAttribute(name, "");
    else if (value !== false && value !== null && value !== undefined) made.setAttribute(name, value);
  }
  made.append(...children.filter((child) => child !== null));
  return made;
}

const SHAPES = {
  pause: "M6 4h4v16H6zM14 4h4v16h-4z",
  freeze: "M4 5h16v14H4zM6 7v10h12V7zM9 9h2v6H9zM13 9h2v6h-2z",
  play: "M7 4v16l13-8z",
  first: "M5 4h3v16H5zM20 4v16L9 12z",
  last: "M16 4h3v16h-3zM4 4v16l11-8z",
  back: "M14 5v14l-9-7zM17 5h2v14h-2z",
  forward: "M10 5v14l9-7zM5 5h2v14H5z",
  pin: "M4 4h7v7H4zM13 4h7v7h-7zM4 13h7v7H4zM13 13h7v7h-7z",
};

/** A picture for a button that has a label of its own. */
export function icon(name) {
  const svg = document.createElementNS("http://www.w3.org/2000/svg", "svg");
  svg.setAttribute("viewBox", "0 0 24 24");
  svg.setAttribute("aria-hidden", "true");
  const path = document.createElementNS("http://www.w3.org/2000/svg", "path");
  path.setAttribute("d", SHAPES[name]);
  path.setAttribute("fill-rule", "evenodd");
  svg.append(path);
  return svg;
}

/** A button that shows a picture and is called by a name. */
export function iconButton(name, label, onClick) {
  return element("button", { type: "button", class: "icon", "aria-label": label, title: label, click: onClick }, icon(name));
}

/** Change a text only if it differs: a label that is set anew is read aloud anew. */
export function setText(node, text) {
  if (node.textContent !== text) node.textContent = text;
}

/** Say something in a corner, for some seconds; a screen reader says it too. */
export function notice(text, kind = "") {
  const said = element("p", { class: `notice ${kind}` }, text);
  document.getElementById("notices").append(said);
  setTimeout(() => said.remove(), 7000);
}
