//! What all network probes share: the far end, its CPU, and the faults of both.

use std::net::{Ipv4Addr, TcpStream, UdpSocket};

use fathom_far::{Far, FarError, ProcessProgram, ProtocolWork, Remote, SetUp, Token};
use fathom_measure::sampler::{FarPlace, LOOPBACK};

use crate::prelude::*;

/// A far end that does this work, and its data connections. `cpus=1`: on the CPU of this process.
pub(super) fn open(
    work: ProtocolWork,
    place: &FarPlace,
    cpus: i64,
    sampler: &mut Sampler,
) -> Result<(Far, Vec<TcpStream>)> {
    open_with(work, place, cpus, None, sampler)
}

/// The same with a TCP congestion control other than the default one of this host.
pub(super) fn open_with(
    work: ProtocolWork,
    place: &FarPlace,
    cpus: i64,
    congestion: Option<&str>,
    sampler: &mut Sampler,
) -> Result<(Far, Vec<TcpStream>)> {
    let cpu = far_cpu(place, cpus, sampler)?;
    if place.address.is_none() {
        check_loopback()?;
    }
    let both = begin(work, place, cpu, congestion).map_err(|error| fault(&place.to, error))?;
    both.0.process().into_iter().for_each(|process| sampler.works_with(process));
    Ok(both)
}

fn begin(
    work: ProtocolWork,
    place: &FarPlace,
    cpu: u32,
    congestion: Option<&str>,
) -> Result<(Far, Vec<TcpStream>), FarError> {
    let mut far = match place.address {
        None => Far::start(&far_program()?)?,
        Some(address) => {
            let token = place.token_file.as_deref().map(Token::read).transpose()?;
            Far::connect(&Remote { address, token, bind: place.bind })?
        }
    };
    // Both ends alike, where the far host has it.
    let system = std::fs::read_to_string("/proc/sys/net/ipv4/tcp_congestion_control");
    let system = system.ok().map(|name| name.trim().to_owned());
    let congestion = congestion.map(str::to_owned).or(system);
    let data = far.begin(SetUp { work, cpu, congestion })?;
    Ok((far, data))
}

pub(super) fn far_cpu(place: &FarPlace, cpus: i64, sampler: &Sampler) -> Result<u32> {
    let settings = sampler.settings();
    match (place.address, cpus) {
        (Some(_), _) => Ok(place.cpu),
        (None, 1) => Ok(settings.cpu),
        (None, _) => settings.other_cpu.ok_or_else(|| {
            SamplerFault::unavailable("this process may use one CPU only", Remedy::SecondCpu)
        }),
    }
}

/// By the addresses and the routes of this host, without a packet.
pub(super) fn check_loopback() -> Result<()> {
    let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0));
    let connected = socket.and_then(|socket| socket.connect((Ipv4Addr::LOCALHOST, 9)));
    connected.map_err(|error| match error.raw_os_error() {
        Some(libc::ENETUNREACH | libc::EADDRNOTAVAIL) => {
            SamplerFault::Unavailable("the loopback interface is down".to_owned(), None)
        }
        _ => SamplerFault::system("socket", error),
    })
}

#[cfg(not(test))]
fn far_program() -> Result<ProcessProgram, FarError> {
    ProcessProgram::this().map_err(|error| FarError::System { call: "find this program", error })
}

#[cfg(test)]
fn far_program() -> Result<ProcessProgram, FarError> {
    Ok(crate::smoke::far_program())
}

/// The program that serves the folder which follows its arguments.
#[cfg(not(test))]
pub(super) fn service_program() -> Result<ProcessProgram, FarError> {
    ProcessProgram::service().map_err(|error| FarError::System { call: "find this program", error })
}

#[cfg(test)]
pub(super) fn service_program() -> Result<ProcessProgram, FarError> {
    Ok(crate::smoke::service_program())
}

pub(super) fn fault(to: &str, error: FarError) -> SamplerFault {
    let is_end = matches!(error, FarError::Closed | FarError::TimedOut(_));
    let is_system = matches!(error, FarError::System { .. });
    let fault = match error {
        FarError::System { call, error } => {
            SamplerFault::system(&format!("far end {to}: {call}"), error)
        }
        error @ (FarError::NoDatagrams(_) | FarError::Limit(_) | FarError::Implausible(_)) => {
            SamplerFault::Unavailable(format!("far end {to}: {error}"), None)
        }
        error => SamplerFault::Failed(format!("far end {to}: {error}")),
    };
    match fault {
        SamplerFault::Failed(text) if to != LOOPBACK && (is_end || is_system) => {
            SamplerFault::FarEndLost(text)
        }
        fault => fault,
    }
}
