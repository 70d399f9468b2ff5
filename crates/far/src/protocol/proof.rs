//! Proof of the token by challenge and response: the token itself is never sent.

use std::fs::File;
use std::io::Read as _;

use hmac_sha256::HMAC;
use subtle::ConstantTimeEq as _;

use crate::protocol::UPGRADE;
use crate::protocol::error::FarError;
use crate::protocol::token::Token;

const NONCE_BYTES: usize = 32;
/// In hexadecimal digits.
pub(crate) const NONCE_DIGITS: usize = 2 * NONCE_BYTES;

/// Who proves. Part of the proof, so that neither end can return the proof of the other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    Near,
    Far,
}

/// The proof of one side for the challenges of both.
pub fn proof(token: &Token, side: Side, near: &str, far: &str) -> String {
    proof_for(UPGRADE, token, side, near, far)
}

/// The same for another protocol, in which the proofs of this one are wrong.
pub fn proof_for(protocol: &str, token: &Token, side: Side, near: &str, far: &str) -> String {
    let side = if side == Side::Near { "near" } else { "far" };
    hex(&HMAC::mac(format!("{protocol}\n{side}\n{near}\n{far}"), token.bytes()))
}

/// A random number that is used once, in hexadecimal.
///
/// # Errors
/// If the kernel's random numbers cannot be read.
pub fn nonce() -> Result<String, FarError> {
    let mut bytes = [0; NONCE_BYTES];
    let file = File::open("/dev/urandom");
    let read = file.and_then(|mut file| file.read_exact(&mut bytes));
    read.map_err(FarError::system("read /dev/urandom"))?;
    Ok(hex(&bytes))
}

/// Whether it can be one of [`nonce`].
pub fn is_nonce(text: &str) -> bool {
    text.len() == NONCE_DIGITS && text.bytes().all(|byte| byte.is_ascii_hexdigit())
}

/// Compares in a time that depends on the lengths only.
pub fn is_same(a: &[u8], b: &[u8]) -> bool {
    bool::from(a.ct_eq(b))
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}
