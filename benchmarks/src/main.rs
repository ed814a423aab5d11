//! The benchmark suite.
#![forbid(unsafe_code)]

fn main() -> std::process::ExitCode {
    let mut out = std::io::stdout();
    match std::io::Write::write_all(&mut out, benchmarks::typescript::module().as_bytes()) {
        Ok(()) => std::process::ExitCode::SUCCESS,
        Err(_) => std::process::ExitCode::FAILURE,
    }
}
