//! The host of `--remote`: its address, its facts, and the name of it in records.

use anyhow::Error;
use fathom_engine::Plan;
use fathom_measure::sampler::FarPlace;
use fathom_record::{Cause, Document, FarHost, Host, Record, State};
use fathom_transfer::place::{self, Named, Reached};

use crate::arguments::RunArguments;
use crate::exit::usage_error;

pub(super) struct RemoteHost {
    pub(super) place: FarPlace,
    pub(super) host: FarHost,
}

/// Connects once: whatever is wrong shows before anything is measured.
pub(super) fn find(arguments: &RunArguments, own: &Host) -> anyhow::Result<Option<RemoteHost>> {
    let Some(text) = &arguments.remote else { return Ok(None) };
    let named = Named { option: "--remote", text };
    if let Err(wrong) = named.check() {
        usage_error!("{wrong}");
    }
    let token_file = place::token_file(arguments.token_file.as_deref()).map_err(Error::msg)?;
    let bind = arguments.bind;
    let reached = named.reach(token_file.as_deref(), bind, own).map_err(Error::msg)?;
    let Reached { to, address, host, cpu } = reached;
    let place = FarPlace { to, address: Some(address), bind, cpu, token_file };
    Ok(Some(RemoteHost { place, host }))
}

/// The plan with the cases to this host alone.
pub(in super::super) fn only_to(mut plan: Plan, to: &str) -> Plan {
    plan.units.retain(|unit| unit.cases.iter().any(|case| case.params.text("to") == Some(to)));
    plan
}

/// Metrics whose requests carry the token.
pub(in super::super) const BY_HTTP: [&str; 2] = ["network.http.get", "file.read.remote"];

impl RemoteHost {
    /// A warning of a far end on this machine.
    pub(super) fn sameness(&self, own: &Host) -> Option<String> {
        let (name, is_own) = (&self.host.name, self.host.host.identity() == own.identity());
        let text = format!(
            "--remote {name} is this machine: both ends share its CPUs, whatever `cpus` says, and \
             no packet leaves it"
        );
        is_own.then_some(text)
    }

    /// A warning of a token that others on the network can read.
    pub(super) fn exposure(&self, plan: &Plan) -> Option<String> {
        let FarPlace { address, token_file, .. } = &self.place;
        let address = address.filter(|address| !address.ip().to_canonical().is_loopback())?;
        token_file.as_ref()?;
        let metrics = plan.metrics(false);
        let by_http = metrics.iter().find(|entry| BY_HTTP.contains(&entry.about().id))?.about().id;
        let port = address.port();
        Some(format!(
            "{by_http} sends the token unencrypted to {address}; `ssh -L {port}:127.0.0.1:{port} \
             HOST` encrypts it, and the network is then that of ssh"
        ))
    }
}

/// The cases to the host of `--remote`.
fn cases(document: &Document) -> impl Iterator<Item = &Record> {
    let is_far = |record: &&Record| {
        let to = record.params.text("to");
        document.far.iter().any(|far| to == Some(far.name.as_str()))
    };
    document.records.iter().filter(is_far)
}

/// Whether `--remote` gave nothing but failures.
pub(super) fn has_all_failed(document: &Document) -> bool {
    let mut states = cases(document).map(|record| record.verdict.state).peekable();
    states.peek().is_some() && states.all(|state| state == State::Failed)
}

/// A warning of a far end that was lost during the run.
pub(super) fn losses(document: &Document) -> Option<String> {
    let reasons = cases(document).flat_map(|record| &record.verdict.reasons);
    let mut lost = reasons.filter(|reason| reason.cause == Cause::FarEndLost);
    let first = lost.next()?;
    let (failed, all) = (1 + lost.count(), cases(document).count());
    Some(format!(
        "far end lost in {failed} of {all} remote cases: {}; is `fathom serve` running there?",
        first.text
    ))
}
