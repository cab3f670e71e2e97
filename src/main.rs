//! The program `spindle`: reads the command line, hands over to a command, and ends with its
//! status (0 done, 1 failed, 2 bad usage).

use std::process::ExitCode;

fn main() -> ExitCode {
    spindle::cli::run(std::env::args_os())
}
