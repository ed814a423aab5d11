//! Retries of one request of `clearseal embed`.

use std::time::{Duration, Instant};

use clearseal_client::Error;

use crate::notice::notice;

/// Repeats `ask` after transient failures, such as the restart of a load balancer, so that they do not end a long run.
pub(crate) fn retry<T>(mut ask: impl FnMut() -> Result<T, Error>) -> Result<T, Error> {
    let (begun, mut pause) = (Instant::now(), FIRST_PAUSE);
    loop {
        match ask() {
            Err(error) if error.is_transient() && begun.elapsed() + pause < RETRY_TIMEOUT => {
                if pause == FIRST_PAUSE {
                    notice("no answer; asking again for up to 25 seconds");
                }
                std::thread::sleep(pause);
            }
            other => return other,
        }
        pause = (pause * 2).min(LONGEST_PAUSE);
    }
}

/// Time after which no further attempt begins. The client itself asks twice in each attempt.
const RETRY_TIMEOUT: Duration = Duration::from_secs(25);
/// Pause after the first attempt; doubles after each further one, up to [`LONGEST_PAUSE`].
const FIRST_PAUSE: Duration = Duration::from_millis(50);
const LONGEST_PAUSE: Duration = Duration::from_secs(5);

#[cfg(test)]
mod tests {
    use clearseal_client::Error;

    use super::retry;

    #[test]
    fn a_busy_service_is_asked_again_and_any_other_refusal_is_final() {
        let refusal = |status| Error::Service {
            status,
            code: String::new(),
            message: String::new(),
            param: None,
        };
        let mut asked = 0;
        let answered = retry(|| {
            asked += 1;
            if asked < 2 { Err(refusal(429)) } else { Ok(()) }
        });
        assert!(answered.is_ok());
        assert_eq!(asked, 2);
        let mut asked = 0;
        let answered = retry(|| -> Result<(), Error> {
            asked += 1;
            Err(refusal(400))
        });
        assert!(answered.is_err());
        assert_eq!(asked, 1);
    }
}
