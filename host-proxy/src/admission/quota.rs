//! A bounded amount of a resource, of which one source can hold only a part.

use std::collections::HashMap;

use super::queue::{Permit, Policy, Queue};
use crate::problem::Problem;
use crate::source::Source;

/// Reserves parts of a bounded amount. A clone is the same quota.
#[derive(Clone)]
pub(crate) struct Quota {
    queue: Queue<Shares>,
    per_source: usize,
}

/// A part of a [`Quota`]; returned when dropped.
pub(crate) struct Reservation(Permit<Shares>);

/// Counts what each source holds, and admits requests in the order in which they fit.
pub(crate) struct Shares {
    total: usize,
    per_source: usize,
    held: usize,
    by_source: HashMap<Source, usize>,
}

pub(crate) struct Request {
    source: Source,
    amount: usize,
}

impl Quota {
    /// `total` in all, of which a source can hold `percent`, but at least one.
    pub(crate) fn new(total: usize, percent: u8) -> Self {
        let per_source = (total as u128 * u128::from(percent) / 100).max(1);
        let per_source = usize::try_from(per_source).unwrap_or(total);
        Self {
            queue: Queue::new(Shares {
                total,
                per_source,
                held: 0,
                by_source: HashMap::new(),
            }),
            per_source,
        }
    }

    /// Reserves `amount` now, or nothing.
    ///
    /// # Errors
    /// [`Problem::Busy`] where not so much is left; [`Problem::SourceBusy`] where the source would exceed its share.
    pub(crate) fn reserve(&self, source: Source, amount: usize) -> Result<Reservation, Problem> {
        let mut reservation = Reservation(self.queue.permit(Request { source, amount: 0 }));
        reservation.grow(amount)?;
        Ok(reservation)
    }

    /// Waits until `amount` can be reserved. An amount above a source's share is reduced to that share, because the source
    /// could never hold more.
    ///
    /// # Errors
    /// None: the queue of a quota is unbounded.
    pub(crate) async fn reserve_when_free(
        &self,
        source: Source,
        amount: usize,
    ) -> Result<Reservation, Problem> {
        let amount = amount.min(self.per_source);
        self.queue
            .acquire(Request { source, amount })
            .await
            .map(Reservation)
    }
}

impl Reservation {
    /// Reserves `amount` more now, or nothing.
    ///
    /// # Errors
    /// See [`Quota::reserve`].
    pub(crate) fn grow(&mut self, amount: usize) -> Result<(), Problem> {
        if amount == 0 {
            return Ok(());
        }
        let Permit { queue, request } = &mut self.0;
        let more = Request {
            source: request.source,
            amount,
        };
        let mut state = queue.lock();
        state.policy.check_room(&more)?;
        state.policy.admit(&more);
        request.amount += amount;
        Ok(())
    }
}

impl Shares {
    fn check_room(&self, request: &Request) -> Result<(), Problem> {
        let held = self.by_source.get(&request.source).copied().unwrap_or(0);
        if request.amount > self.total.saturating_sub(self.held) {
            return Err(Problem::Busy);
        }
        if request.amount > self.per_source.saturating_sub(held) {
            return Err(Problem::SourceBusy);
        }
        Ok(())
    }
}

impl Policy for Shares {
    type Request = Request;
    /// By arrival alone.
    type Rank = ();

    fn has_room(&self, request: &Request) -> bool {
        self.check_room(request).is_ok()
    }

    fn admit(&mut self, request: &Request) {
        if request.amount > 0 {
            self.held += request.amount;
            *self.by_source.entry(request.source).or_insert(0) += request.amount;
        }
    }

    fn frees_room(request: &Request) -> bool {
        request.amount > 0
    }

    fn release(&mut self, request: &Request) {
        self.held = self.held.saturating_sub(request.amount);
        if let Some(held) = self.by_source.get_mut(&request.source) {
            *held = held.saturating_sub(request.amount);
            // Only sources that hold something have an entry, so an attacker's addresses use no memory later.
            if *held == 0 {
                self.by_source.remove(&request.source);
            }
        }
    }

    fn rank(&self, _: &Request) {}
}

#[cfg(test)]
mod tests {
    use std::net::{IpAddr, Ipv4Addr};

    use super::*;

    fn source(last: u8) -> Source {
        IpAddr::V4(Ipv4Addr::new(192, 0, 2, last)).into()
    }

    #[test]
    fn one_source_leaves_room_for_another() {
        let quota = Quota::new(10, 50);
        let refusal = |last, amount| quota.reserve(source(last), amount).err();
        let mut first = quota.reserve(source(1), 4).unwrap();
        assert_eq!(first.grow(2), Err(Problem::SourceBusy));
        first.grow(1).unwrap();
        assert_eq!(refusal(1, 1), Some(Problem::SourceBusy));
        let second = quota.reserve(source(2), 5).unwrap();
        assert_eq!(refusal(3, 1), Some(Problem::Busy));
        drop(second);
        assert!(quota.reserve(source(3), 5).is_ok());
        drop(first);
        let state = quota.queue.lock();
        assert_eq!((state.policy.held, state.policy.by_source.len()), (0, 0));
    }

    #[tokio::test]
    async fn a_returned_reservation_wakes_the_waiting_requests() {
        let quota = Quota::new(4, 100);
        let reservation = quota.reserve(source(1), 3).unwrap();
        let waiting = tokio::spawn({
            let quota = quota.clone();
            // Reduced: no source can ever hold nine of four.
            async move { quota.reserve_when_free(source(2), 9).await }
        });
        tokio::task::yield_now().await;
        assert!(!waiting.is_finished());
        drop(reservation);
        let Reservation(permit) = waiting.await.unwrap().unwrap();
        assert_eq!(permit.request.amount, 4);
    }

    #[tokio::test]
    async fn a_request_that_fits_overtakes_one_that_does_not() {
        let quota = Quota::new(4, 100);
        let mut held: Vec<_> = (0..4)
            .map(|_| quota.reserve(source(1), 1).unwrap())
            .collect();
        let large = tokio::spawn({
            let quota = quota.clone();
            async move { quota.reserve_when_free(source(2), 3).await }
        });
        tokio::task::yield_now().await;
        let small = tokio::spawn({
            let quota = quota.clone();
            async move { quota.reserve_when_free(source(3), 1).await }
        });
        tokio::task::yield_now().await;
        held.pop();
        assert!(small.await.unwrap().is_ok());
        assert!(!large.is_finished());
        drop(held);
        assert!(large.await.unwrap().is_ok());
    }
}
