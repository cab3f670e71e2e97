/** Who uses the page. The session itself is an HttpOnly cookie that no script sees. */

import { problemText, whenUnauthorised } from "../api/client";
import { events } from "../api/events";
import * as routes from "../api/routes";
import type { User } from "../api/types";

export type Standing = "checking" | "setup" | "out" | "in" | "unreachable";

class Auth {
  standing = $state<Standing>("checking");
  user = $state.raw<User | null>(null);

  /** Whether this account may change the server: what it may not is not shown. */
  get isOwner(): boolean {
    return this.user?.role === "admin";
  }

  constructor() {
    whenUnauthorised(() => this.#left());
  }

  async check(): Promise<void> {
    this.standing = "checking";
    // First, and alone: without an account there is no one to ask for, and nothing to be refused.
    const setup = await routes.setupNeeded();
    if (setup.kind === "ok" && setup.value.needed) {
      this.standing = "setup";
      return;
    }
    const me = await routes.me();
    if (me.kind === "ok") this.#entered(me.value);
    else if (me.kind === "problem" && me.problem.status === 401) this.standing = "out";
    else this.standing = "unreachable";
  }

  /** Makes the first account; the text of the problem, or nothing. */
  async setup(credentials: routes.Credentials): Promise<string | null> {
    return this.#enter(await routes.setup(credentials));
  }

  async login(credentials: routes.Credentials): Promise<string | null> {
    return this.#enter(await routes.login({ ...credentials, device: "Browser" }));
  }

  async logout(): Promise<void> {
    await routes.logout();
    this.#left();
  }

  #enter(result: Awaited<ReturnType<typeof routes.login>>): string | null {
    if (result.kind === "ok") {
      this.#entered(result.value);
      return null;
    }
    if (result.kind === "aborted") return "The request was cut off.";
    if (result.problem.status === 401) return "The name or the password is wrong.";
    return problemText(result.problem);
  }

  #entered(user: User): void {
    this.user = user;
    this.standing = "in";
    events.open();
  }

  #left(): void {
    this.user = null;
    this.standing = "out";
    events.close();
  }
}

export const auth = new Auth();
