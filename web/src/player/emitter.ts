/** Typed events of the player's parts. */

export class Emitter<Events extends object> {
  readonly #handlers = new Map<keyof Events, Set<(value: never) => void>>();

  /** Listens; the returned function stops. */
  on<K extends keyof Events>(name: K, handler: (value: Events[K]) => void): () => void {
    let set = this.#handlers.get(name);
    if (!set) this.#handlers.set(name, (set = new Set()));
    set.add(handler as (value: never) => void);
    return () => set.delete(handler as (value: never) => void);
  }

  emit<K extends keyof Events>(name: K, value: Events[K]): void {
    // A copy: a handler may stop listening while it is called.
    for (const handler of [...(this.#handlers.get(name) ?? [])]) {
      (handler as (value: Events[K]) => void)(value);
    }
  }

  clear(): void {
    this.#handlers.clear();
  }
}
