//! Permits, and the requests that wait for one.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::oneshot;

use crate::problem::Problem;

/// Decides which requests are admitted, and in which order. Called under the queue's lock.
pub(crate) trait Policy: Send + 'static {
    /// Identifies a requester, and what it asks for.
    type Request: Send + 'static;
    /// Orders waiting requests: the lowest is admitted first, and of equals the one that arrived first.
    type Rank: Ord;

    /// Upper bound on waiting requests. Beyond it, the request with the highest rank is refused.
    const MAX_WAITING: usize = usize::MAX;

    /// Whether the request can be admitted now.
    fn has_room(&self, request: &Self::Request) -> bool;

    /// Counts an admitted request.
    fn admit(&mut self, request: &Self::Request);

    /// Counts the end of an admitted request.
    fn release(&mut self, request: &Self::Request);

    /// Whether the end of an admitted request can make room.
    fn frees_room(_request: &Self::Request) -> bool {
        true
    }

    /// Computes the rank of a waiting request.
    fn rank(&self, request: &Self::Request) -> Self::Rank;

    /// Refuses a new request, whether or not there is room.
    fn check(&self, _request: &Self::Request) -> Result<(), Problem> {
        Ok(())
    }

    /// Refuses a new request for which there is no room, instead of queueing it.
    fn check_wait(&self, _request: &Self::Request) -> Result<(), Problem> {
        Ok(())
    }

    /// Counts a request that joins the queue.
    fn begin_wait(&mut self, _request: &Self::Request) {}

    /// Counts a request that leaves the queue, admitted or not.
    fn end_wait(&mut self, _request: &Self::Request) {}
}

/// Admits requests by a policy. A clone is the same queue.
pub(crate) struct Queue<P: Policy>(Arc<Mutex<State<P>>>);

impl<P: Policy> Clone for Queue<P> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

pub(super) struct State<P: Policy> {
    pub(super) policy: P,
    waiters: Vec<Waiter<P>>,
    arrivals: u64,
}

struct Waiter<P: Policy> {
    request: P::Request,
    arrival: u64,
    grant: oneshot::Sender<Permit<P>>,
}

/// An admitted request. Dropping the permit admits the next one.
pub(crate) struct Permit<P: Policy> {
    pub(super) queue: Queue<P>,
    pub(super) request: P::Request,
}

impl<P: Policy> Queue<P> {
    pub(super) fn new(policy: P) -> Self {
        Self(Arc::new(Mutex::new(State {
            policy,
            waiters: Vec::new(),
            arrivals: 0,
        })))
    }

    /// Waits until the request is admitted. A request whose future is dropped leaves the queue.
    ///
    /// # Errors
    /// The policy's refusal; [`Problem::Busy`] where the request is evicted from a full queue.
    pub(super) async fn acquire(&self, request: P::Request) -> Result<Permit<P>, Problem> {
        let mut ticket = match self.enter(request)? {
            Entry::Admitted(permit) => return Ok(permit),
            Entry::Waiting(ticket) => ticket,
        };
        (&mut ticket.granted).await.map_err(|_| Problem::Busy)
    }

    /// Admits the request or queues it, in one step under the lock.
    fn enter(&self, request: P::Request) -> Result<Entry<P>, Problem> {
        let mut state = self.lock();
        state.policy.check(&request)?;
        if state.policy.has_room(&request) {
            state.policy.admit(&request);
            return Ok(Entry::Admitted(self.permit(request)));
        }
        state.policy.check_wait(&request)?;
        state.policy.begin_wait(&request);
        state.arrivals += 1;
        let arrival = state.arrivals;
        let (grant, granted) = oneshot::channel();
        state.waiters.push(Waiter {
            request,
            arrival,
            grant,
        });
        state.evict();
        Ok(Entry::Waiting(Ticket {
            queue: self.clone(),
            arrival,
            granted,
        }))
    }

    pub(super) fn permit(&self, request: P::Request) -> Permit<P> {
        Permit {
            queue: self.clone(),
            request,
        }
    }

    pub(super) fn lock(&self) -> MutexGuard<'_, State<P>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

enum Entry<P: Policy> {
    Admitted(Permit<P>),
    Waiting(Ticket<P>),
}

/// The requester's side of a waiter. Leaves the queue when dropped.
struct Ticket<P: Policy> {
    queue: Queue<P>,
    arrival: u64,
    /// Fails where the waiter was evicted. Dropped with a permit inside, it releases that permit.
    granted: oneshot::Receiver<Permit<P>>,
}

impl<P: Policy> Drop for Ticket<P> {
    fn drop(&mut self) {
        let mut state = self.queue.lock();
        let at = state
            .waiters
            .iter()
            .position(|waiter| waiter.arrival == self.arrival);
        if let Some(at) = at {
            state.remove(at);
        }
    }
}

impl<P: Policy> Drop for Permit<P> {
    fn drop(&mut self) {
        if !P::frees_room(&self.request) {
            return;
        }
        let admitted = {
            // In one step: a new request must not overtake the waiting ones.
            let mut state = self.queue.lock();
            state.policy.release(&self.request);
            state.admit_waiting()
        };
        for Waiter { request, grant, .. } in admitted {
            // Without the lock: where the requester is gone, the permit is dropped here, which takes the lock again.
            drop(grant.send(self.queue.permit(request)));
        }
    }
}

impl<P: Policy> State<P> {
    /// Admits waiting requests, by rank, for as long as there is room for one.
    fn admit_waiting(&mut self) -> Vec<Waiter<P>> {
        let mut admitted = Vec::new();
        while let Some(next) = (0..self.waiters.len())
            .filter(|at| self.policy.has_room(&self.waiters[*at].request))
            .min_by_key(|at| self.rank(*at))
        {
            let waiter = self.remove(next);
            self.policy.admit(&waiter.request);
            admitted.push(waiter);
        }
        admitted
    }

    fn evict(&mut self) {
        if self.waiters.len() > P::MAX_WAITING
            && let Some(last) = (0..self.waiters.len()).max_by_key(|at| self.rank(*at))
        {
            self.remove(last);
        }
    }

    fn remove(&mut self, at: usize) -> Waiter<P> {
        let waiter = self.waiters.swap_remove(at);
        self.policy.end_wait(&waiter.request);
        waiter
    }

    fn rank(&self, at: usize) -> (P::Rank, u64) {
        let Waiter {
            request, arrival, ..
        } = &self.waiters[at];
        (self.policy.rank(request), *arrival)
    }

    #[cfg(test)]
    pub(super) fn waiting(&self) -> usize {
        self.waiters.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// One permit at a time; requests are their own ranks.
    struct One {
        admitted: Option<u8>,
        waiting: usize,
    }

    impl Policy for One {
        type Request = u8;
        type Rank = u8;

        const MAX_WAITING: usize = 3;

        fn has_room(&self, _: &u8) -> bool {
            self.admitted.is_none()
        }

        fn admit(&mut self, request: &u8) {
            assert_eq!(self.admitted.replace(*request), None);
        }

        fn release(&mut self, request: &u8) {
            assert_eq!(self.admitted.take(), Some(*request));
        }

        fn rank(&self, request: &u8) -> u8 {
            *request
        }

        fn check(&self, request: &u8) -> Result<(), Problem> {
            match *request {
                100.. => Err(Problem::SourceBusy),
                _ => Ok(()),
            }
        }

        fn begin_wait(&mut self, _: &u8) {
            self.waiting += 1;
        }

        fn end_wait(&mut self, _: &u8) {
            self.waiting -= 1;
        }
    }

    fn queue() -> Queue<One> {
        Queue::new(One {
            admitted: None,
            waiting: 0,
        })
    }

    fn admitted(queue: &Queue<One>, request: u8) -> Permit<One> {
        match queue.enter(request).unwrap() {
            Entry::Admitted(permit) => permit,
            Entry::Waiting(_) => panic!("{request} has to wait"),
        }
    }

    fn waiting(queue: &Queue<One>, request: u8) -> Ticket<One> {
        match queue.enter(request).unwrap() {
            Entry::Admitted(_) => panic!("{request} does not have to wait"),
            Entry::Waiting(ticket) => ticket,
        }
    }

    #[test]
    fn requests_are_admitted_by_rank_then_by_arrival() {
        let queue = queue();
        let mut held = admitted(&queue, 9);
        let mut tickets = [7, 5, 5].map(|request| waiting(&queue, request));
        let mut order = Vec::new();
        for _ in 0..tickets.len() {
            drop(held);
            let next = tickets
                .iter_mut()
                .enumerate()
                .find_map(|(at, ticket)| Some((at, ticket.granted.try_recv().ok()?)));
            let (at, permit) = next.unwrap();
            order.push(at);
            held = permit;
        }
        assert_eq!(order, [1, 2, 0]);
    }

    #[test]
    fn a_full_queue_evicts_the_highest_rank() {
        let queue = queue();
        let _held = admitted(&queue, 9);
        let mut tickets = [7, 5, 6, 1].map(|request| waiting(&queue, request));
        let evicted = tickets[0].granted.try_recv();
        assert_eq!(evicted.err(), Some(oneshot::error::TryRecvError::Closed));
        assert_eq!(queue.lock().waiting(), One::MAX_WAITING);
        assert_eq!(queue.lock().policy.waiting, One::MAX_WAITING);
    }

    #[test]
    fn a_dropped_request_leaves_the_queue_or_passes_its_permit_on() {
        let queue = queue();
        let held = admitted(&queue, 9);
        let first = waiting(&queue, 1);
        let mut second = waiting(&queue, 2);
        drop(waiting(&queue, 0));
        assert_eq!(queue.lock().policy.waiting, 2);
        drop(held);
        // Admitted, but it never took its permit.
        drop(first);
        let permit = second.granted.try_recv().unwrap();
        assert_eq!(permit.request, 2);
        drop((second, permit));
        assert_eq!(queue.lock().policy.admitted, None);
        assert_eq!(queue.lock().policy.waiting, 0);
    }

    #[test]
    fn a_refused_request_does_not_wait() {
        let queue = queue();
        assert_eq!(queue.enter(100).err(), Some(Problem::SourceBusy));
        assert_eq!(queue.lock().waiting(), 0);
    }
}
