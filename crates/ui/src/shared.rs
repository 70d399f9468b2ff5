//! What all requests share.

use std::sync::Arc;

use fathom_service::{Budget, Names, Token};
use tokio::sync::Semaphore;

use crate::seats::Seats;
use crate::view::Views;

/// Requests for data that wait for a thread or are worked on.
pub(crate) const WAITING_MAX: usize = 32;

pub(crate) struct Shared {
    pub(crate) page: &'static str,
    pub(crate) token: Option<Token>,
    pub(crate) names: Names,
    pub(crate) views: Arc<dyn Views>,
    /// Places of requests for data.
    pub(crate) places: Arc<Semaphore>,
    pub(crate) seats: Seats,
    /// Memory of data that clients have not read.
    pub(crate) budget: Budget,
}

impl Shared {
    pub(crate) fn new(
        page: &'static str,
        token: Option<Token>,
        names: Vec<String>,
        views: Arc<dyn Views>,
        clock: fn() -> u64,
    ) -> Arc<Self> {
        let (names, places) = (Names::and_host(names), Arc::new(Semaphore::new(WAITING_MAX)));
        let (seats, budget) = (Seats::new(clock), Budget::default());
        Arc::new(Self { page, token, names, views, places, seats, budget })
    }
}
