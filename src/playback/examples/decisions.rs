//! The table of every sample on every built-in client, and how fast it is made:
//! `cargo run -p spindle-playback --example decisions > src/playback/tests/fixtures/decisions.txt`, and
//! `cargo run --release -p spindle-playback --example decisions -- bench`.

#[path = "../tests/table/mod.rs"]
mod table;

use std::io::{self, Write as _};

use spindle_playback::Choice;

fn main() -> io::Result<()> {
    let samples = table::samples();
    if std::env::args().nth(1).as_deref() != Some("bench") {
        return io::stdout().write_all(table::table(&samples).as_bytes());
    }
    let clients = table::clients();
    let choice = Choice::default();
    let mut best = f64::MAX;
    // The best of several: what else runs on the machine only ever adds.
    for _ in 0..7 {
        let began = spindle_base::clock::instant();
        for sample in &samples {
            for (_, client) in &clients {
                std::hint::black_box(client.decide(std::hint::black_box(&sample.info), &choice));
            }
        }
        best = best.min(began.elapsed().as_secs_f64());
    }
    let count = samples.len() * clients.len();
    #[expect(clippy::cast_precision_loss, reason = "some thousands")]
    let a_second = count as f64 / best;
    writeln!(
        io::stdout(),
        "{{\"decisions\": {count}, \"seconds\": {best:.6}, \"decisions_per_second\": {a_second:.0}}}"
    )
}
