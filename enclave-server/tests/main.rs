//! Runs the built server, and its parts against parents that the tests control. Tests with a separate process: `allocations` and
//! `bomb` count allocations, `logs` sets the log of the process, `agreement`, `reference` and `soak` are run by name.

mod flood;
mod parent;
mod process;
mod release;
mod sealed;
mod stops;
