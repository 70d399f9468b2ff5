//! Why a member could not join, measure or deliver.

use fathom_far::FarError;

#[derive(Debug, thiserror::Error)]
pub enum FleetError {
    #[error(transparent)]
    Connection(#[from] FarError),
    #[error("{0}")]
    System(#[from] std::io::Error),
    #[error("protocol {found} (fathom {version}), this fathom has protocol {own}")]
    Protocol { found: u32, version: String, own: u32 },
    #[error("wrong token")]
    TokenWrong,
    #[error("unexpected message: {0}")]
    Unexpected(&'static str),
    /// What the coordinator says when it sends a member away.
    #[error("the coordinator refuses this member: {0}")]
    Refused(String),
    #[error("no answer of the coordinator for {0} s")]
    Silent(u64),
    #[error("{0}: the coordinator has ended, or begins later")]
    Nobody(FarError),
    #[error("the coordinator has gone")]
    Gone,
    /// What was ordered has not come to an end.
    #[error("{0}")]
    Failed(String),
    /// `order`: why it is not carried out.
    #[error("refused an order: {0}")]
    Order(String),
}
