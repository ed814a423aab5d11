//! Runs channels over pipes and sockets.

mod bulk;
mod channels;
mod common;
mod deadlines;
mod unanswered;
