/** Where the page stands. */

import { parse, type Route } from "../lib/route";

class Router {
  route = $state.raw<Route>(parse(location.hash));

  /** Whether the page was walked in since it was opened: then "back" stays inside it. */
  moved = false;

  constructor() {
    addEventListener("hashchange", () => {
      this.moved = true;
      this.route = parse(location.hash);
    });
  }

  go(href: string): void {
    location.hash = href.replace(/^#/, "");
  }

  /** Changes the address without a new entry in the browser's history: filters, search. */
  replace(href: string): void {
    history.replaceState(history.state, "", href);
    this.route = parse(location.hash);
  }
}

export const router = new Router();
