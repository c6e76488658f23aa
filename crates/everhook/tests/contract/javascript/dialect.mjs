// The npm package `svix` under the names of its current release.
//
// Exercises are written for the 2.x package. The 1.x package has the same operations under other names of methods and
// fields; this module translates them, so that one exercise serves both. It translates names only, never values.

import { readFile } from "node:fs/promises";
import { join } from "node:path";
import { pathToFileURL } from "node:url";

// Names of 2.x with their names of 1.x.
const OLD_METHODS = { upsert: "update", setHeaders: "updateHeaders" };
const OLD_FIELDS = { eventTypes: "filterTypes" };
const OLD_FIELDS_IN = /^(endpoint|operationalWebhook\.endpoint)\.(create|upsert|patch)$/;

// `integration.update` has this name in every release.
const SAME_NAME = new Set(["integration.update"]);

export class Package {
  // Loads the package from a `node_modules` folder, in which each version has a folder of its own.
  static async load(modules, name) {
    const folder = join(modules, name);
    const description = JSON.parse(await readFile(join(folder, "package.json"), "utf8"));
    const loaded = await import(pathToFileURL(join(folder, description.main)));
    return new Package(loaded, description.version);
  }

  constructor(loaded, version) {
    this.version = version;
    this.old = version.startsWith("1.");
    this.Svix = loaded.Svix;
    this.Webhook = loaded.Webhook;
  }

  client(token, serverUrl) {
    return this.#resource(new this.Svix(token, { serverUrl }), "");
  }

  // Wraps a client, or a part of it, so that its methods have the names of 2.x.
  #resource(inner, path) {
    if (!this.old) return inner;
    const find = (_, name) => {
      const found = name in inner ? name : (OLD_METHODS[name] ?? name);
      const value = inner[found];
      if (typeof value !== "function") return this.#resource(value, `${path}${name}.`);
      return (...parameters) => value.apply(inner, this.#translate(`${path}${name}`, parameters));
    };
    return new Proxy({}, { get: find });
  }

  #translate(method, parameters) {
    if (!OLD_FIELDS_IN.test(method)) return parameters;
    const rename = ([field, value]) => [OLD_FIELDS[field] ?? field, value];
    const isBody = (parameter) => typeof parameter === "object";
    return parameters.map((one) => (isBody(one) ? Object.fromEntries(Object.entries(one).map(rename)) : one));
  }

  // Returns the names of all methods as the Python package spells them, found by looking at the classes.
  methods() {
    const client = new this.Svix("token", { serverUrl: "http://127.0.0.1" });
    return [...this.#methods(client, "")].map(inPython).sort();
  }

  *#methods(resource, prefix) {
    const members = Object.getOwnPropertyDescriptors(Object.getPrototypeOf(resource));
    for (const [name, member] of Object.entries(members)) {
      if (name === "constructor") continue;
      if (member.get) yield* this.#methods(resource[name], `${prefix}${name}.`);
      else yield prefix + this.#newName(prefix, name);
    }
  }

  #newName(prefix, name) {
    if (!this.old || SAME_NAME.has(prefix + name)) return name;
    const renamed = Object.entries(OLD_METHODS).find(([, old]) => old === name);
    return renamed ? renamed[0] : name;
  }
}

// Python cannot name a method `import`.
function inPython(name) {
  const snake = name.replace(/[A-Z]/g, (letter) => `_${letter.toLowerCase()}`);
  return snake === "environment.import" ? "environment.import_" : snake;
}
