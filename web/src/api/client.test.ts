import { describe, expect, it } from "vitest";
import { problemText } from "./client";

describe("a problem in one line", () => {
  it("is the server's sentence and never the word of HTTP", () => {
    const text = problemText({ status: 409, title: "Conflict", detail: "there is a library `Films` already", type: "about:blank" });
    expect(text).toBe("There is a library `Films` already");
  });

  it("keeps a sentence that begins with a name or a quotation as it is", () => {
    expect(problemText({ status: 400, title: "Bad Request", detail: "`/srv` is no folder" })).toBe("`/srv` is no folder");
  });

  it("says who answered where there is no sentence", () => {
    expect(problemText({ status: 502, title: "Bad Gateway" })).toBe("The server answered: Bad Gateway (502)");
  });

  it("is our own sentence where the server said nothing", () => {
    expect(problemText({ status: 0, title: "The server does not answer", detail: "Failed to fetch", local: true })).toBe("The server does not answer");
  });
});
