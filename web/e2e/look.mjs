/// Takes pictures of one view of the built page: node e2e/look.mjs NAME HASH [POOL] [THEMES] [SIZES]
import { mkdirSync } from "node:fs";
import { chromium } from "playwright-core";
import { startMock } from "./mock/server.mjs";

const [name, hash, pool, themes = "dark,light", sizes = "1440x900", file] = process.argv.slice(2);
mkdirSync("e2e/.work/look", { recursive: true });
const mock = await startMock({ storage: pool || undefined, file });
const browser = await chromium.launch({ executablePath: process.env.CHROMIUM ?? "/usr/bin/chromium", args: ["--no-sandbox", "--disable-gpu"] });
for (const theme of themes.split(",")) {
  for (const size of sizes.split(",")) {
    const [width, height] = size.split("x").map(Number);
    const page = await (await browser.newContext({ viewport: { width, height }, baseURL: mock.url, colorScheme: theme })).newPage();
    page.on("console", (m) => m.type() === "error" && console.log("console:", m.text()));
    page.on("pageerror", (e) => console.log("page:", e.message));
    await page.goto("/");
    await page.getByTestId("login-form").locator("[name=username]").fill("ada");
    await page.getByTestId("login-form").locator("[name=password]").fill("correct horse");
    await page.getByTestId("login-form").locator("button[type=submit]").click();
    await page.getByRole("navigation", { name: "Main" }).waitFor();
    await page.goto(`/#${hash}`);
    await page.waitForTimeout(Number(process.env.WAIT ?? 2500));
    if (process.env.CLICK) {
      await page.locator(process.env.CLICK).first().click();
      await page.waitForTimeout(700);
    }
    const over = await page.evaluate(() => document.documentElement.scrollWidth - innerWidth);
    if (over > 0) console.log(`${name} ${theme} ${size}: ${over} px too wide`);
    await page.screenshot({ path: `e2e/.work/look/${name}-${theme}-${width}.png`, fullPage: process.env.WHOLE !== "0" });
    await page.context().close();
  }
}
await browser.close();
await mock.close();
