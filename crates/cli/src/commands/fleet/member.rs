//! `fathom fleet member`: joins a coordinator.

use std::env::var;

use anyhow::{Context as _, anyhow};
use fathom_far::{FarError, Token};
use fathom_fleet::{FleetError, FleetOrder, Join, Local, MemberEnding, Membership, TOKEN, serve};
use fathom_measure::host::HostReader;
use fathom_measure::process::this_program;
use fathom_record::Unit;
use fathom_record::host::{NAME_VARIABLE, is_name};
use fathom_record::quantity::quantity;

use super::known_hosts::boot_id;
use super::order;
use crate::arguments::fleet::MemberArguments;
use crate::exit::{Status, usage_error};
use crate::interrupt::Interrupt;
use crate::terminal;

/// Places in the engines that start members.
const RANKS: [&str; 4] =
    ["SLURM_PROCID", "OMPI_COMM_WORLD_RANK", "PMI_RANK", "JOB_COMPLETION_INDEX"];
/// What Slurm calls this host.
const NODE: &str = "SLURMD_NODENAME";

pub(in super::super) fn member(arguments: &MemberArguments) -> anyhow::Result<Status> {
    let interrupt = Interrupt::listen().context("listen to signals")?;
    let token = token(arguments)?;
    let (host, port) = &arguments.join;
    let addresses = fathom_http::resolve(host, *port).with_context(|| format!("look up {host}"))?;
    let (join, name) = join(arguments)?;
    let facts = join.host.clone();
    let to_arguments = |order: &FleetOrder, local: &Local<'_>| {
        let by_name = Some(facts.name.as_str()).filter(|_| order.by_name);
        order::arguments(order, local, &facts, name.as_deref().or(by_name))
    };
    let waits = |error: &FarError| {
        let time = quantity(arguments.connect_time.as_nanos() as f64, Unit::Nanoseconds);
        terminal::warn(&format!("waiting for {host}:{port}, for {time} at most: {error}"));
    };
    let membership = Membership {
        addresses,
        token,
        join,
        connect_ns: arguments.connect_time.as_nanos() as u64,
        waits: &waits,
        program: this_program().context("find this program")?,
        arguments: &to_arguments,
    };
    let ending = serve(&membership, std::os::fd::AsFd::as_fd(&interrupt));
    let of = || format!("member of {host}:{port}");
    if let Err(error @ FleetError::Nobody(_)) = ending {
        anyhow::bail!("{}: {error}: --connect-time waits for it", of());
    }
    match ending.with_context(of)? {
        MemberEnding::Done => Ok(Status::Success),
        MemberEnding::Stopped => Ok(Status::Interrupted),
    }
}

fn token(arguments: &MemberArguments) -> anyhow::Result<Token> {
    if let Some(path) = &arguments.token_file {
        return Ok(Token::read(path)?);
    }
    let Some(text) = std::env::var_os(TOKEN).filter(|text| !text.is_empty()) else {
        usage_error!("no token: set {TOKEN}, or add --token-file FILE of the coordinator");
    };
    let token = text.to_str().and_then(Token::parse);
    token.ok_or_else(|| anyhow!("{TOKEN} is not one line of ASCII"))
}

/// What this host joins with, and the name to measure by if it is not its own: that of the engine.
fn join(arguments: &MemberArguments) -> anyhow::Result<(Join, Option<String>)> {
    let node = |text: String| Some(text).filter(|text| is_name(text));
    let node = arguments.node.clone().or_else(|| var(NODE).ok()).and_then(node);
    let reader = HostReader::live();
    let mut host = reader.read();
    let is_named = host.origins.get("name").is_some_and(|origin| origin == NAME_VARIABLE);
    let name = match is_named {
        true => Some(host.name.clone()),
        // What ssh calls a host may be an address.
        false if arguments.node.is_some() => None,
        false => node.clone().filter(|node| !is_same_host(node, &host.name)),
    };
    if let Some(name) = name.as_deref().filter(|_| !is_named) {
        host = HostReader::live().named(name).read();
    }
    if host.name.is_empty() {
        usage_error!("this host has no name: set {NAME_VARIABLE}");
    }
    let named_id = HostReader::live().named(&host.name).read().id;
    // Where each fact comes from is in the document of the run.
    host.origins.clear();
    let rank = RANKS.iter().find_map(|it| var(it).ok()?.parse().ok());
    let boot_id = boot_id(&reader);
    Ok((Join { rank, node, boot_id, host, named_id }, name))
}

/// Whether one of them is the other with its domain.
fn is_same_host(node: &str, name: &str) -> bool {
    let first = |name: &str| name.split('.').next().unwrap_or_default().to_ascii_lowercase();
    first(node) == first(name)
}
