//! `TestApp`: a server with a library of its own, in a temporary folder, on a free loopback port.

use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use serde_json::{Value, json};
use spindle::app::{App, Stopped};
use spindle::config::{Layers, Origin};
use spindle_base::clock::instant;
use tokio::sync::oneshot;

/// A running server. Dropping it stops it.
pub(crate) struct TestApp {
    pub(crate) address: SocketAddr,
    pub(crate) library: PathBuf,
    stop: Option<oneshot::Sender<()>>,
    thread: Option<std::thread::JoinHandle<Stopped>>,
    _dir: tempfile::TempDir,
}

impl TestApp {
    /// A server over a `movies` library that `fill` fills first.
    pub(crate) fn start(fill: impl FnOnce(&Path)) -> Self {
        Self::start_with(&[], fill)
    }

    /// The same with settings of its own.
    pub(crate) fn start_with(settings: &[(&str, &str)], fill: impl FnOnce(&Path)) -> Self {
        let dir = tempfile::tempdir().expect("a temporary folder");
        let library = dir.path().join("Movies");
        std::fs::create_dir(&library).expect("the library's folder");
        fill(&library);
        let mut layers = Layers::default();
        let worker = worker_program();
        for (key, value) in [
            ("listen", "127.0.0.1:0"),
            ("data_dir", dir.path().join("data").to_str().expect("UTF-8")),
            ("storage.helper", "off"),
            ("transcode.worker", worker.to_str().expect("UTF-8")),
        ]
        .iter()
        .chain(settings)
        {
            layers.set(key, value, Origin::Flag).expect("a known key");
        }
        let setting = format!("movies={}", library.display());
        layers.library(&setting, Origin::Flag).expect("a valid library");
        let config = layers.build().expect("valid settings");
        let (stop, stopped) = oneshot::channel::<()>();
        let (ready, address) = std::sync::mpsc::channel();
        let thread = std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_multi_thread()
                .worker_threads(2)
                .enable_all()
                .build()
                .expect("a runtime");
            runtime.block_on(async {
                let app = App::build(config).await.expect("the server builds");
                ready.send(app.address()).expect("the test waits");
                let stop = async {
                    let _stopped_or_dropped = stopped.await;
                };
                app.run_until(stop, std::future::pending()).await
            })
        });
        let address = address.recv().expect("the server listens");
        Self { address, library, stop: Some(stop), thread: Some(thread), _dir: dir }
    }

    /// A server over one short film, with an account and the film's id.
    pub(crate) fn with_film() -> (Self, Client, String) {
        Self::with_film_and(&[])
    }

    /// The same with settings of its own.
    pub(crate) fn with_film_and(settings: &[(&str, &str)]) -> (Self, Client, String) {
        let app = Self::start_with(settings, |dir| {
            std::fs::copy(film(), dir.join("Amber Coast (2001).mp4")).expect("the film is copied");
        });
        let client = app.owner();
        let id = client.wait_for_items(1)[0]["id"].as_str().expect("an id").to_owned();
        (app, client, id)
    }

    /// Stops it as a signal does; how that went.
    pub(crate) fn stop(mut self) -> Stopped {
        drop(self.stop.take());
        let thread = self.thread.take().expect("it runs");
        thread.join().expect("the server stops without a panic")
    }

    /// Where it keeps its data.
    pub(crate) fn data_dir(&self) -> PathBuf {
        self._dir.path().join("data")
    }

    /// Stops it, and gives what it leaves behind; that goes with the guard.
    pub(crate) fn stop_and_keep(mut self) -> (PathBuf, Self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            thread.join().expect("the server stops without a panic");
        }
        (self.data_dir(), self)
    }

    /// A client that is signed in as the first account.
    pub(crate) fn owner(&self) -> Client {
        let mut client = Client { address: self.address, token: None };
        let body = json!({"username": "ann", "password": "correct horse"});
        let made = client.post("/api/v1/setup", &body);
        assert_eq!(made.status, 201, "{}", made.text());
        client.token = Some(made.json()["token"].as_str().expect("a token").to_owned());
        client
    }
}

impl Drop for TestApp {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            let ended = thread.join();
            if !std::thread::panicking() {
                ended.expect("the server stops without a panic");
            }
        }
    }
}

/// The worker that was built beside this test.
pub(crate) fn worker_program() -> PathBuf {
    let exe = std::env::current_exe().expect("this program has a path");
    let dir = exe.parent().and_then(Path::parent).expect("target/release");
    dir.join("spindle-transcode")
}

/// Ten seconds of H.264 and AAC in MP4. Made once for all tests, also where each is a process of its own, and
/// made anew when what it is made of changes.
pub(crate) fn film() -> PathBuf {
    const MADE_OF: &str = "-f lavfi -i testsrc2=s=320x180:r=25:d=10 -f lavfi -i sine=440:d=10 \
                           -c:v libx264 -g 50 -pix_fmt yuv420p -c:a aac -movflags +faststart";
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR"));
    let path = folder.join(format!("film-{}.mp4", &blake3::hash(MADE_OF.as_bytes()).to_hex()[..16]));
    if !path.exists() {
        // Aside and moved: nobody finds half a film. Two that make it at once make the same.
        let dir = tempfile::tempdir_in(folder).expect("a temporary folder");
        let part = dir.path().join("film.mp4");
        let status = Command::new("ffmpeg")
            .args(["-v", "error"])
            .args(MADE_OF.split_whitespace())
            .arg(&part)
            .status()
            .expect("ffmpeg runs");
        assert!(status.success(), "ffmpeg makes the film");
        std::fs::rename(&part, &path).expect("the film is moved");
    }
    path
}

/// A client of the API, and of raw HTTP.
#[derive(Clone)]
pub(crate) struct Client {
    pub(crate) address: SocketAddr,
    pub(crate) token: Option<String>,
}

/// An answer, whole.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) version: String,
    pub(crate) fields: Vec<(String, String)>,
    pub(crate) body: Vec<u8>,
}

impl Answer {
    pub(crate) fn field(&self, name: &str) -> Option<&str> {
        let found = self.fields.iter().find(|(n, _)| n.eq_ignore_ascii_case(name));
        found.map(|(_, v)| v.as_str())
    }

    pub(crate) fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }

    pub(crate) fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap_or_else(|e| panic!("not JSON ({e}): {}", self.text()))
    }
}

impl Client {
    pub(crate) fn connect(&self) -> Connection {
        Connection::to(self.address)
    }

    fn send(&self, method: &str, path: &str, body: Option<&Value>, extra: &str) -> Answer {
        let auth = self.token.as_ref().map_or(String::new(), |t| format!("Authorization: Bearer {t}\r\n"));
        let body = body.map_or(String::new(), Value::to_string);
        let kind = if body.is_empty() { "" } else { "Content-Type: application/json\r\n" };
        let length =
            if method == "GET" { String::new() } else { format!("Content-Length: {}\r\n", body.len()) };
        let text = format!("{method} {path} HTTP/1.1\r\nHost: t\r\n{auth}{kind}{length}{extra}\r\n{body}");
        let mut connection = self.connect();
        connection.write(&text);
        connection.read(method == "HEAD")
    }

    pub(crate) fn get(&self, path: &str) -> Answer {
        self.send("GET", path, None, "")
    }

    pub(crate) fn get_with(&self, path: &str, fields: &str) -> Answer {
        self.send("GET", path, None, fields)
    }

    pub(crate) fn head_with(&self, path: &str, fields: &str) -> Answer {
        self.send("HEAD", path, None, fields)
    }

    pub(crate) fn post(&self, path: &str, body: &Value) -> Answer {
        self.send("POST", path, Some(body), "")
    }

    pub(crate) fn put(&self, path: &str, body: &Value) -> Answer {
        self.send("PUT", path, Some(body), "")
    }

    pub(crate) fn delete(&self, path: &str) -> Answer {
        self.send("DELETE", path, None, "")
    }

    pub(crate) fn request(&self, method: &str, path: &str, fields: &str) -> Answer {
        self.send(method, path, None, fields)
    }

    /// Waits until the index holds this many films that were probed.
    pub(crate) fn wait_for_items(&self, count: usize) -> Vec<Value> {
        let until = instant() + Duration::from_secs(60);
        loop {
            let answer = self.get("/api/v1/items?type=movie&limit=1000").json();
            let items = answer["items"].as_array().expect("a list").clone();
            let probed = |i: &&Value| i["duration_s"].is_number() || i["unreadable"].is_string();
            if items.iter().filter(probed).count() >= count {
                return items;
            }
            assert!(instant() < until, "the scan does not end: {answer}");
            std::thread::sleep(Duration::from_millis(50));
        }
    }

    /// Opens a session of `client` and gives what `/play` says.
    pub(crate) fn play(&self, item: &str, client: &Value) -> Value {
        let answer = self.post(&format!("/api/v1/items/{item}/play"), &json!({ "client": client }));
        assert_eq!(answer.status, 200, "{}", answer.text());
        answer.json()
    }
}

/// One connection, for tests about connections.
pub(crate) struct Connection {
    stream: TcpStream,
    read: Vec<u8>,
}

impl Connection {
    pub(crate) fn to(address: SocketAddr) -> Self {
        let stream = TcpStream::connect(address).expect("the server accepts");
        stream.set_read_timeout(Some(Duration::from_secs(30))).expect("a valid timeout");
        stream.set_nodelay(true).expect("TCP_NODELAY");
        Self { stream, read: Vec::new() }
    }

    pub(crate) fn write(&mut self, text: &str) {
        self.write_bytes(text.as_bytes());
    }

    pub(crate) fn write_bytes(&mut self, bytes: &[u8]) {
        self.stream.write_all(bytes).expect("the server reads");
    }

    /// Says that nothing more will be sent; reads on.
    pub(crate) fn half_close(&mut self) {
        self.stream.shutdown(std::net::Shutdown::Write).expect("the connection is open");
    }

    /// Reads until the server closes; what it sent.
    pub(crate) fn read_to_end(&mut self) -> String {
        while self.fill() > 0 {}
        String::from_utf8_lossy(&self.read).into_owned()
    }

    /// Throws away what was read so far.
    pub(crate) fn forget(&mut self) {
        self.read.clear();
    }

    /// Reads until `text` has come.
    pub(crate) fn read_until(&mut self, text: &str) {
        while !String::from_utf8_lossy(&self.read).contains(text) {
            assert!(self.fill() > 0, "closed before `{text}`: {}", String::from_utf8_lossy(&self.read));
        }
    }

    fn fill(&mut self) -> usize {
        let mut chunk = [0; 65536];
        let n = loop {
            match self.stream.read(&mut chunk) {
                // A worker that ended; signal(7): reads with a time limit are not begun again by the kernel.
                Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
                read => break read.expect("the server answers within 30 s"),
            }
        };
        self.read.extend_from_slice(&chunk[..n]);
        n
    }

    /// Reads the next frame of HTTP/2 (RFC 9113 section 4.1): its type and its payload.
    pub(crate) fn read_frame(&mut self) -> (u8, Vec<u8>) {
        const HEAD: usize = 9;
        loop {
            if let [a, b, c, kind, ..] = self.read[..] {
                let end = HEAD + u32::from_be_bytes([0, a, b, c]) as usize;
                if self.read.len() >= end {
                    let frame: Vec<u8> = self.read.drain(..end).collect();
                    return (kind, frame[HEAD..].to_vec());
                }
            }
            assert!(self.fill() > 0, "closed within a frame");
        }
    }

    /// Whether the server has closed and everything was read.
    pub(crate) fn is_closed(&mut self) -> bool {
        self.read.is_empty() && self.fill() == 0
    }

    /// Reads one answer; `no_body` for HEAD.
    pub(crate) fn read(&mut self, no_body: bool) -> Answer {
        let head_end = loop {
            if let Some(at) = self.read.windows(4).position(|w| w == b"\r\n\r\n") {
                break at + 4;
            }
            assert!(self.fill() > 0, "closed within a head: {:?}", String::from_utf8_lossy(&self.read));
        };
        let head = String::from_utf8(self.read.drain(..head_end).collect()).expect("an ASCII head");
        let mut lines = head.trim_end().split("\r\n");
        let mut start = lines.next().expect("a status line").split(' ');
        let version = start.next().expect("a version").to_owned();
        let status: u16 = start.next().and_then(|s| s.parse().ok()).expect("a status");
        let fields: Vec<(String, String)> = lines
            .map(|l| l.split_once(": ").expect("a field"))
            .map(|(n, v)| (n.to_owned(), v.to_owned()))
            .collect();
        let mut answer = Answer { status, version, fields, body: Vec::new() };
        if no_body || status == 304 || status == 204 {
            return answer;
        }
        if answer.field("transfer-encoding").is_some() {
            answer.body = self.chunked();
        } else {
            let length: usize = answer.field("content-length").expect("a length").parse().expect("a number");
            while self.read.len() < length {
                assert!(self.fill() > 0, "closed within a body");
            }
            answer.body = self.read.drain(..length).collect();
        }
        answer
    }

    fn chunked(&mut self) -> Vec<u8> {
        let mut body = Vec::new();
        loop {
            let end = loop {
                if let Some(at) = self.read.windows(2).position(|w| w == b"\r\n") {
                    break at;
                }
                assert!(self.fill() > 0, "closed within a chunk");
            };
            let size = String::from_utf8(self.read.drain(..end + 2).collect()).expect("ASCII");
            let size = usize::from_str_radix(size.trim(), 16).expect("a chunk size");
            while self.read.len() < size + 2 {
                assert!(self.fill() > 0, "closed within a chunk");
            }
            body.extend(self.read.drain(..size));
            self.read.drain(..2);
            if size == 0 {
                return body;
            }
        }
    }
}
