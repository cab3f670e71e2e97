/** Light or dark: the browser's wish, or the viewer's own choice. */

import { prefs } from "./prefs.svelte";

export type Choice = "system" | "light" | "dark";

class Theme {
  #light = $state(matchMedia("(prefers-color-scheme: light)").matches);

  constructor() {
    matchMedia("(prefers-color-scheme: light)").addEventListener("change", (event) => {
      this.#light = event.matches;
      this.apply();
    });
  }

  get choice(): Choice {
    return prefs.value.theme;
  }

  set choice(choice: Choice) {
    prefs.set({ theme: choice });
    this.apply();
  }

  get current(): "light" | "dark" {
    if (this.choice !== "system") return this.choice;
    return this.#light ? "light" : "dark";
  }

  /** Tells the style sheet, and the browser's own frame. */
  apply(): void {
    document.documentElement.dataset.theme = this.current;
    const ground = this.current === "light" ? "#f3f5f8" : "#0b0e13";
    document.querySelector("meta[name=theme-color]")?.setAttribute("content", ground);
    document.querySelector("meta[name=color-scheme]")?.setAttribute("content", this.current);
  }
}

export const theme = new Theme();

/** A token or colour as a canvas needs it, under the theme that holds at `element`. */
export function resolveColour(element: Element, colour: string | undefined, fallback = "#8d9bad"): string {
  const token = /^var\((--[\w-]+)\)$/.exec(colour ?? "")?.[1];
  if (!token) return colour ?? fallback;
  return getComputedStyle(element).getPropertyValue(token).trim() || fallback;
}
