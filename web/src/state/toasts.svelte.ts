/** Short messages that go by themselves. */

export interface Toast {
  id: number;
  text: string;
  tone: "plain" | "bad";
}

const SHOWN_MS = 6_000;

class Toasts {
  list = $state.raw<Toast[]>([]);
  #next = 1;

  say(text: string, tone: Toast["tone"] = "plain"): void {
    const toast = { id: this.#next++, text, tone };
    this.list = [...this.list.slice(-3), toast];
    setTimeout(() => this.drop(toast.id), SHOWN_MS);
  }

  drop(id: number): void {
    this.list = this.list.filter((toast) => toast.id !== id);
  }
}

export const toasts = new Toasts();
