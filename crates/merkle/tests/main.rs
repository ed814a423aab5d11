//! Judges trees and signed heads.

mod head;
mod tree;
