// Shows the OpenAPI document of this server. All texts are inserted as texts, never as markup.
"use strict";

const METHODS = ["get", "post", "put", "patch", "delete"];
// Schemas may refer to themselves.
const DEPTH_MAX = 5;

const byId = (id) => document.getElementById(id);

// Creates an element with properties and children.
function element(tag, properties, ...children) {
  const made = Object.assign(document.createElement(tag), properties);
  made.append(...children.filter((child) => child !== null && child !== undefined));
  return made;
}

// A text in which `backquotes` mark code.
function prose(text) {
  const parts = (text || "").split("`");
  return element("p", {}, ...parts.map((part, index) => (index % 2 ? element("code", {}, part) : part)));
}

class Viewer {
  constructor(document) {
    this.document = document;
    this.operations = [];
  }

  resolve(schema) {
    if (!schema || !schema.$ref) return schema || {};
    const name = schema.$ref.split("/").pop();
    return { ...this.document.components.schemas[name], ...schema, title: name };
  }

  // The word for the type of a schema.
  type(schema) {
    if (schema.$ref) return schema.$ref.split("/").pop();
    if (schema.oneOf || schema.anyOf) {
      return (schema.oneOf || schema.anyOf).map((part) => this.type(part)).join(" or ");
    }
    const types = [schema.type || "any"].flat();
    const words = types.map((type) => {
      if (type === "array") return `list of ${this.type(schema.items || {})}`;
      return schema.format ? `${type} (${schema.format})` : type;
    });
    return words.join(" or ");
  }

  bounds(schema) {
    const names = {
      minimum: "at least *", maximum: "at most *", minLength: "at least * characters", maxLength: "at most * characters",
      minItems: "at least * items", maxItems: "at most * items", pattern: "pattern *",
    };
    const found = Object.keys(names).filter((name) => schema[name] !== undefined);
    const words = found.map((name) => names[name].replace("*", () => schema[name]));
    if (schema.enum) words.push(`one of ${schema.enum.join(", ")}`);
    if (schema.deprecated) words.push("deprecated");
    return words.join("; ");
  }

  // All fields of an object, also those of its parts.
  fields(schema) {
    const whole = this.resolve(schema);
    const required = new Set(whole.required || []);
    const own = Object.entries(whole.properties || {}).map(([name, field]) => {
      return { name, field, required: required.has(name) };
    });
    return own.concat(...(whole.allOf || []).map((part) => this.fields(part)));
  }

  // The schemas within a field that have fields themselves.
  inner(schema) {
    const parts = [schema, ...(schema.oneOf || []), ...(schema.anyOf || [])];
    const all = parts.concat(parts.map((part) => part.items).filter(Boolean));
    return all.filter((part) => this.fields(part).length > 0);
  }

  row(name, required, schema, description, depth) {
    const cell = element("td", {}, prose(description), element("p", { className: "faint" }, this.bounds(schema)));
    if (depth < DEPTH_MAX) {
      for (const part of this.inner(schema)) {
        const nested = element("div", { className: "nested" });
        const more = element("details", {}, element("summary", {}, `fields of ${this.type(part)}`), nested);
        // Filled when it is opened: the document is large, and its schemas may refer to each other.
        more.addEventListener("toggle", () => nested.append(this.table(part, depth + 1)), { once: true });
        cell.append(more);
      }
    }
    const mark = required ? element("span", { className: "required" }, " required") : null;
    const title = element("td", {}, element("code", {}, name), mark);
    return element("tr", {}, title, element("td", { className: "faint" }, this.type(schema)), cell);
  }

  table(schema, depth) {
    const parts = this.resolve(schema).oneOf;
    if (parts) {
      const shown = parts.filter((part) => this.fields(part).length > 0);
      return element("div", {}, ...shown.flatMap((part) => [
        element("h4", {}, this.type(part)), this.table(part, depth),
      ]));
    }
    const rows = this.fields(schema).map(({ name, field, required }) => {
      return this.row(name, required, field, field.description || this.resolve(field).description, depth);
    });
    return element("table", {}, ...rows);
  }

  example(content) {
    if (content.example === undefined) return null;
    return element("pre", {}, JSON.stringify(content.example, null, 2));
  }

  body(title, content) {
    const type = this.type(content.schema || {});
    const open = element("details", {}, element("summary", {}, `fields of ${type}`), this.table(content.schema, 0));
    return element("div", {}, element("h4", {}, title), this.example(content), open);
  }

  response(status, given) {
    const response = given.$ref ? this.document.components.responses[given.$ref.split("/").pop()] : given;
    const content = response.content && response.content["application/json"];
    const title = `${status} ${response.description}`;
    if (!content) return element("p", {}, title);
    const shown = element("details", {}, element("summary", {}, title));
    shown.addEventListener("toggle", () => {
      shown.append(this.example(content) || "", this.table(content.schema, 0));
    }, { once: true });
    return shown;
  }

  operation(path, method, operation) {
    const id = operation.operationId || `${method}${path}`;
    const made = element("article", { id });
    made.append(
      element("h3", {}, operation.summary || id),
      element("p", { className: "path" }, element("span", { className: `method ${method}` }, method.toUpperCase()), path),
    );
    if (operation.description) made.append(prose(operation.description));
    if (operation["x-capability"]) {
      made.append(prose(`Tokens of an application need the capability \`${operation["x-capability"]}\`.`));
    }
    if (operation.parameters && operation.parameters.length > 0) {
      const rows = operation.parameters.map((parameter) => {
        const words = `${parameter.description || ""} (${parameter.in})`;
        return this.row(parameter.name, parameter.required, parameter.schema || {}, words, 0);
      });
      made.append(element("h4", {}, "Parameters"), element("table", {}, ...rows));
    }
    const body = operation.requestBody && operation.requestBody.content["application/json"];
    if (body) made.append(this.body("Body", body));
    const responses = Object.entries(operation.responses || {});
    const shown = responses.map(([status, response]) => this.response(status, response));
    const successes = shown.filter((_, index) => responses[index][0] < "400");
    const failures = shown.filter((_, index) => responses[index][0] >= "400");
    made.append(element("h4", {}, "Responses"), ...successes);
    if (failures.length > 0) {
      made.append(element("details", {}, element("summary", {}, "Failures"), element("div", { className: "nested" }, ...failures)));
    }
    return made;
  }

  // Renders every operation by its tag, with an entry in the contents.
  show() {
    const tags = new Map();
    for (const [path, item] of Object.entries(this.document.paths)) {
      for (const method of METHODS.filter((method) => item[method])) {
        const tag = (item[method].tags || ["Other"])[0];
        if (!tags.has(tag)) tags.set(tag, []);
        tags.get(tag).push([path, method, item[method]]);
      }
    }
    for (const [tag, operations] of tags) {
      const section = element("section", {}, element("h2", {}, tag));
      const list = element("div", {}, element("h2", {}, tag));
      for (const [path, method, operation] of operations) {
        const article = this.operation(path, method, operation);
        const name = element("span", { className: `method ${method}` }, method.toUpperCase());
        const link = element("a", { href: `#${article.id}` }, name, operation.summary || path);
        const words = [path, method, tag, operation.summary, operation.description, operation.operationId];
        this.operations.push({ article, link, text: words.join(" ").toLowerCase() });
        section.append(article);
        list.append(link);
      }
      byId("operations").append(section);
      byId("contents").append(list);
    }
  }

  // Shows only operations that contain every word.
  search(text) {
    const words = text.toLowerCase().split(/\s+/).filter(Boolean);
    for (const { article, link, text } of this.operations) {
      article.hidden = link.hidden = !words.every((word) => text.includes(word));
    }
    for (const group of document.querySelectorAll("nav > div, main > section:not(.intro)")) {
      group.hidden = !group.querySelector("a:not([hidden]), article:not([hidden])");
    }
    const found = this.operations.filter(({ article }) => !article.hidden).length;
    byId("state").textContent = words.length > 0 ? `${found} of ${this.operations.length} operations` : "";
  }
}

function switchTheme() {
  const root = document.documentElement;
  const isDark = getComputedStyle(root).colorScheme === "dark"
    || (!root.dataset.theme && matchMedia("(prefers-color-scheme: dark)").matches);
  root.dataset.theme = isDark ? "light" : "dark";
}

async function start() {
  byId("theme").addEventListener("click", switchTheme);
  const answer = await fetch("/api/v1/openapi.json");
  if (!answer.ok) throw new Error(`the server answered ${answer.status}`);
  const viewer = new Viewer(await answer.json());
  viewer.show();
  const search = byId("search");
  search.addEventListener("input", () => viewer.search(search.value));
  viewer.search(search.value);
  if (location.hash) byId(decodeURIComponent(location.hash.slice(1)))?.scrollIntoView();
}

start().catch((error) => {
  byId("state").textContent = `The document could not be shown: ${error.message}`;
});
