//! Structured logs on standard error, and a panic hook that drops messages.

use tracing_subscriber::EnvFilter;
use tracing_subscriber::filter::ParseError;

use crate::config::LogForm;

/// Starts logging for the process.
///
/// # Errors
/// [`ParseError`] where `filter` is malformed.
pub fn start(form: LogForm, filter: &str) -> Result<(), ParseError> {
    let builder = tracing_subscriber::fmt()
        .with_env_filter(EnvFilter::try_new(filter)?)
        .with_writer(std::io::stderr);
    match form {
        LogForm::Text => builder
            .with_ansi(std::io::IsTerminal::is_terminal(&std::io::stderr()))
            .init(),
        LogForm::Json => builder.json().flatten_event(true).init(),
    }
    quiet_panics();
    Ok(())
}

/// Logs where a panic happened, and drops its message: it may quote a request.
pub fn quiet_panics() {
    std::panic::set_hook(Box::new(|info| {
        let location = info.location().map(ToString::to_string).unwrap_or_default();
        tracing::error!(code = "PANIC", location, "a thread panicked");
    }));
}
