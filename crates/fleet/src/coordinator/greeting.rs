//! The coordinator's side of a greeting: until both ends have proved the token, and the member has
//! joined, it may be anyone.

use fathom_far::{Side, Token};

use crate::error::FleetError;
use crate::protocol::{
    Join, PROTOCOL, ToCoordinator, ToMember, challenge, check_hello, check_proof, proof_of,
};

/// What is expected next.
#[derive(Debug)]
pub(super) enum Greeting {
    Hello,
    /// The challenges of the member and of the coordinator.
    Proof([String; 2]),
    Join,
}

pub(super) enum Greeted {
    /// The next step, with an answer to send.
    Goes(Greeting, Option<ToMember>),
    Joins(Box<Join>),
}

impl Greeting {
    /// # Errors
    /// If the other end is no member, or has another token.
    pub(super) fn hears(
        self,
        message: ToCoordinator,
        token: &Token,
    ) -> Result<Greeted, FleetError> {
        match (self, message) {
            (Self::Hello, ToCoordinator::Hello { protocol, version, challenge: member }) => {
                check_hello(protocol, &version, &member)?;
                let own = challenge()?;
                let answer = ToMember::Hello {
                    protocol: PROTOCOL,
                    version: env!("CARGO_PKG_VERSION").to_owned(),
                    challenge: own.clone(),
                    proof: proof_of(token, Side::Far, &member, &own),
                };
                Ok(Greeted::Goes(Self::Proof([member, own]), Some(answer)))
            }
            (Self::Proof([member, own]), ToCoordinator::Proof { proof }) => {
                check_proof(&proof, token, Side::Near, [&member, &own])?;
                Ok(Greeted::Goes(Self::Join, None))
            }
            (Self::Join, ToCoordinator::Join(join)) => Ok(Greeted::Joins(join)),
            (Self::Hello, _) => Err(FleetError::Unexpected("expected hello")),
            (Self::Proof(_), _) => Err(FleetError::Unexpected("expected proof")),
            (Self::Join, _) => Err(FleetError::Unexpected("expected join")),
        }
    }
}
