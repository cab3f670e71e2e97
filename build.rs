//! Makes sure that there is a page to embed: `web/dist` is built by `npm run build` (scripts/serve
//! does it), never by cargo. Without it the server embeds one line that says so.

use std::path::Path;

fn main() {
    println!("cargo:rerun-if-changed=web/dist");
    let page = Path::new("web/dist/index.html");
    if page.exists() {
        return;
    }
    let text = "<!doctype html><title>Spindle</title><p>The page was not built. \
                Run scripts/serve, or `npm ci &amp;&amp; npm run build` in web/, and build again.";
    let written = std::fs::create_dir_all("web/dist").and_then(|()| std::fs::write(page, text));
    if let Err(error) = written {
        println!("cargo:warning=unable to write a placeholder page to web/dist: {error}");
    }
}
