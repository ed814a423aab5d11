//! Runs the program.

mod cli;
mod common;
mod forms;
mod index;
mod kms;
mod log;
mod model;
mod network;
mod private_index;
mod proxy;
mod published;
mod release;
mod revocation;
mod simulation;
mod vector;
mod vectors;
mod withdrawal;
mod witness;
