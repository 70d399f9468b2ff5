//! The congestion control of the client's sockets.

use fathom_metric::ProcedureError;

/// Refuses a congestion control that this kernel does not have.
pub fn check_congestion(name: &str) -> Result<(), ProcedureError> {
    let path = "/proc/sys/net/ipv4/tcp_available_congestion_control";
    let known = std::fs::read_to_string(path).unwrap_or_default();
    if known.is_empty() || known.split_whitespace().any(|one| one == name) {
        return Ok(());
    }
    let text = format!("--congestion {name}: available are {}", known.trim());
    Err(ProcedureError::failed(text))
}
