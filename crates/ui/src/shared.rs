//! What all requests share.

use std::sync::Arc;

use fathom_service::{Names, Token};
use tokio::sync::Semaphore;

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
}

impl Shared {
    pub(crate) fn new(
        page: &'static str,
        token: Option<Token>,
        names: Vec<String>,
        views: Arc<dyn Views>,
    ) -> Arc<Self> {
        let (names, places) = (Names::and_host(names), Arc::new(Semaphore::new(WAITING_MAX)));
        Arc::new(Self { page, token, names, views, places })
    }
}
