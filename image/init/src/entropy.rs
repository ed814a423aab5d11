//! Mixes random bytes of the NSM into the kernel's pool before the server generates a key. This can only help: the kernel does
//! not credit them as entropy; it credits the processor's generator and its own reads of the NSM.

use std::fs::OpenOptions;
use std::io::Write;

use aws_nitro_enclaves_nsm_api::api::{Request, Response};
use aws_nitro_enclaves_nsm_api::driver::{nsm_exit, nsm_init, nsm_process_request};

/// Number of requests; each returns up to 256 bytes.
const ANSWERS: usize = 4;

/// Mixes in random bytes; returns their number.
pub(crate) fn mix_in() -> Result<usize, String> {
    let mut pool = OpenOptions::new()
        .write(true)
        .open("/dev/urandom")
        .map_err(|error| error.to_string())?;
    let device = nsm_init();
    if device < 0 {
        return Err("there is no /dev/nsm".to_owned());
    }
    let mut mixed = 0;
    let outcome =
        (0..ANSWERS).try_for_each(|_| match nsm_process_request(device, Request::GetRandom) {
            Response::GetRandom { random } if !random.is_empty() => {
                mixed += random.len();
                pool.write_all(&random).map_err(|error| error.to_string())
            }
            _ => Err("the NSM gave none".to_owned()),
        });
    nsm_exit(device);
    outcome.map(|()| mixed)
}
