import { afterEach, describe, expect, it, vi } from "vitest";
import { ProgressReporter, saved } from "./progress";

function video(): HTMLVideoElement {
  const element = { currentTime: 61.5, paused: true, readyState: 4, buffered: { length: 0 }, addEventListener: () => undefined };
  return element as unknown as HTMLVideoElement;
}

afterEach(() => vi.unstubAllGlobals());

describe("positions on their way", () => {
  it("are waited for, so that the page behind the player shows what was saved", async () => {
    let answer: (response: Response) => void = () => undefined;
    vi.stubGlobal("fetch", () => new Promise<Response>((resolve) => (answer = resolve)));
    vi.stubGlobal("document", { addEventListener: () => undefined });
    const reporter = new ProgressReporter();
    reporter.attach(video(), "s1", () => undefined, () => undefined);
    const told = reporter.report(true);
    let known = false;
    const waited = saved(60_000).then(() => (known = true));
    await Promise.resolve();
    expect(known).toBe(false);
    answer(new Response(null, { status: 204 }));
    await waited;
    await told;
    reporter.detach();
    await saved(0);
  });

  it("that never arrive hold nothing up", async () => {
    vi.stubGlobal("fetch", () => new Promise<Response>(() => undefined));
    vi.stubGlobal("document", { addEventListener: () => undefined });
    const reporter = new ProgressReporter();
    reporter.attach(video(), "s2", () => undefined, () => undefined);
    void reporter.report();
    await saved(1);
    reporter.detach();
  });
});
