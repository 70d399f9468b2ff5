//! Options to downloads, downloads to records.

use std::collections::BTreeSet;
use std::path::Path;

use fathom_fileio::fast::{FastOptions, read_fast};
use fathom_fileio::{PathInfoSource, XorSum};
use fathom_http::{Tls, Url};
use fathom_load::check_congestion;
use fathom_load::https::Https;
use fathom_load::target::{LOOPBACK, read_token};
use fathom_measure::affinity;
use fathom_metric::{
    Ending, Event, Measured, Procedure, ProcedureError, Recorder, observed, too_short,
};
use fathom_record::quantity::quantity;
use fathom_record::{Cause, Check, Disturbance, Fact, Params, State, Unit, Verdict};

use crate::connection::First;
use crate::download::{Complete, Download};
use crate::metrics::ID;
use crate::name;
use crate::options::{Fetch, Receive};
use crate::part::FetchPlace;

impl Procedure for Fetch {
    fn asked(&self) -> String {
        self.urls.join(" ")
    }

    /// It would take longer than many downloads.
    fn calibrates(&self) -> bool {
        false
    }

    fn check(&self) -> Result<(), ProcedureError> {
        let mut names = BTreeSet::new();
        for text in &self.urls {
            let url = Url::parse(text).map_err(ProcedureError::usage)?;
            self.https.tls_for(&url)?;
            if url.is_https && self.receive != Receive::Copy {
                let path = self.receive.path();
                return Err(ProcedureError::usage(format!(
                    "--receive {path}: what is encrypted is received by copy only"
                )));
            }
            let of_url = |why: String| ProcedureError::failed(format!("{text}: {why}"));
            if self.names_file() {
                continue;
            }
            let name = name::of_path(&url.path).map_err(of_url)?;
            if !names.insert(name.clone()) {
                return Err(of_url(format!("another URL is saved as {name} too; fetch it apart")));
            }
        }
        for name in &names {
            let is_of_other = |part: &str| names.contains(part.strip_suffix(".part").unwrap_or(""));
            if is_of_other(name) || name.strip_suffix(".state").is_some_and(is_of_other) {
                return Err(ProcedureError::failed(format!(
                    "{name} is also the name of an unfinished file of another URL; fetch it apart"
                )));
            }
        }
        if self.urls.len() > 1 && !self.output.is_dir() {
            let text = format!("-o {}: several URLs need a folder; make it", self.output.display());
            return Err(ProcedureError::failed(text));
        }
        self.congestion.as_deref().map_or(Ok(()), check_congestion)
    }

    fn run(&self, recorder: &mut dyn Recorder) -> Result<Ending, ProcedureError> {
        let mut is_faulty = false;
        for text in &self.urls {
            let url = Url::parse(text).map_err(ProcedureError::usage)?;
            let to = match is_loopback(&url) {
                true => LOOPBACK.to_owned(),
                false => url.host.clone(),
            };
            let tls = self.https.tls_for(&url)?;
            let (fetched, counted) =
                observed(recorder.cpu(), || self.one((text, url, tls.as_ref()), &to, recorder));
            match fetched {
                Ok(Some(complete)) => self.record(&complete, counted, &to, recorder)?,
                Ok(None) => return Ok(Ending::Stopped),
                Err(why) if self.urls.len() == 1 => {
                    return Err(ProcedureError::failed(format!("{text}: {why}")));
                }
                Err(why) => {
                    recorder.event(Event::Warning(&format!("{text}: {why}")));
                    is_faulty = true;
                }
            }
            recorder.show();
        }
        Ok(if is_faulty { Ending::Faulty } else { Ending::Done })
    }
}

/// By name: what the records are sorted by, not what the packets do.
fn is_loopback(url: &Url) -> bool {
    url.host == "localhost"
        || url.host.parse::<std::net::IpAddr>().is_ok_and(|address| address.is_loopback())
}

impl Fetch {
    /// Whether -o is the name of a file, not of a folder.
    fn names_file(&self) -> bool {
        let is_folder =
            self.output.is_dir() || self.output.as_os_str().as_encoded_bytes().ends_with(b"/");
        self.urls.len() == 1 && !is_folder
    }

    fn place(&self, url: &Url) -> Result<FetchPlace, String> {
        if !self.names_file() {
            return FetchPlace::new(&self.output, name::of_path(&url.path)?);
        }
        let shown = self.output.display();
        let name = self.output.file_name().and_then(|name| name.to_str());
        let name = name.ok_or_else(|| format!("-o {shown}: not the name of a file in UTF-8"))?;
        FetchPlace::new(self.output.parent().unwrap_or(Path::new(".")), name.to_owned())
    }

    fn one(
        &self,
        (text, url, tls): (&str, Url, Option<&Tls>),
        to: &str,
        recorder: &mut dyn Recorder,
    ) -> Result<Option<Complete>, String> {
        let place = self.place(&url)?;
        let shown = &place.shown;
        if place.is_unfinished() {
            return Err(format!(
                "{shown} is an unfinished download: finish that, or name the file by -o"
            ));
        }
        if let Some(bytes) = place.existing()?.filter(|_| !self.force) {
            return Err(format!("{shown} exists ({bytes} bytes); replace it by --force"));
        }
        let mut fields = self.header.clone();
        if self.https.insecure {
            let warning = "--insecure: no certificate is verified, whoever answers is the server";
            recorder.event(Event::Warning(warning));
        }
        if let Some(path) = &self.token_file {
            let token = read_token(path).map_err(|error| error.to_string())?;
            fields.push(format!("Authorization: Bearer {token}"));
            if to != LOOPBACK && tls.is_none() {
                let (port, host) = (url.port, &url.host);
                recorder.event(Event::Warning(&format!(
                    "the token is sent unencrypted to {host}; `ssh -L {port}:127.0.0.1:{port} \
                     {host}` encrypts it: fetch from http://127.0.0.1:{port}/"
                )));
            }
        }
        Download::new(self, (text, url, tls), place, fields, recorder)?.run(recorder)
    }

    fn record(
        &self,
        complete: &Complete,
        counted: Disturbance,
        to: &str,
        recorder: &mut dyn Recorder,
    ) -> Result<(), ProcedureError> {
        let sum = self.sum.then(|| read_sum(complete, recorder)).transpose()?;
        let seconds = complete.ns as f64 / 1e9;
        let params = Params::one("path", complete.path.name())
            .and("connections", complete.connections as i64)
            .and("file_bytes", complete.bytes as i64)
            .and("to", to);
        let is_empty = complete.received == 0;
        let nothing = "0 bytes received: nothing to measure";
        recorder.record(Measured {
            metric: ID,
            params,
            values: if is_empty { Vec::new() } else { vec![complete.received as f64 / seconds] },
            disturbance: vec![counted],
            verdict: is_empty
                .then(|| Verdict::because(State::Unavailable, Cause::Missing, nothing)),
            checks: vec![Check {
                name: "length on disk".to_owned(),
                passed: true,
                detail: complete.bytes.to_string(),
            }],
            facts: facts(complete, sum, &self.https),
            doubts: too_short(complete.ns as f64, complete.setup_ns as f64).into_iter().collect(),
            ..Measured::default()
        });
        Ok(())
    }
}

fn facts(complete: &Complete, sum: Option<XorSum>, https: &Https) -> Vec<Fact> {
    let place = &complete.place.shown;
    let name: String = place.chars().map(|c| if c.is_control() { '?' } else { c }).collect();
    let mut facts = vec![
        Fact::text("file", name),
        Fact::quantity("bytes", complete.bytes as f64, Unit::Bytes),
        Fact::quantity("time", complete.ns as f64, Unit::Nanoseconds),
        Fact::quantity("fsync", complete.sync_ns as f64, Unit::Nanoseconds),
    ];
    let connections = match complete.connections {
        1 => "1 connection".to_owned(),
        count => format!("{count} connections"),
    };
    facts.push(Fact::text("by", format!("{}, {connections}", complete.path)));
    if let Some(first) = &complete.first {
        let First { connect_ns, tls_ns, head_ns, tls } = first;
        let of = |what: &str, ns: u64| format!("{what} {}", quantity(ns as f64, Unit::Nanoseconds));
        let tls_ns = tls.as_ref().map(|_| of("TLS handshake", *tls_ns));
        let parts = [of("resolve", complete.resolve_ns), of("connect", *connect_ns)];
        let parts = parts.into_iter().chain(tls_ns).chain([of("first byte", *head_ns)]);
        facts.push(Fact::text("phases", parts.collect::<Vec<_>>().join(", ")));
        facts.extend(tls.as_ref().map(|(version, ciphers)| {
            Fact::text("TLS", format!("{version}, {ciphers}, {}", https.words()))
        }));
    }
    if complete.resumed_from > 0 {
        let at = complete.resumed_from as f64;
        facts.push(Fact::quantity("resumed after", at, Unit::Bytes));
    }
    if complete.retries > 0 {
        facts.push(Fact::text("retries", complete.retries.to_string()));
    }
    facts.extend(complete.etag.as_ref().map(|etag| Fact::text("ETag", etag.as_str())));
    if complete.has_open_end {
        let text = "not announced: whether the file is complete is unknown";
        facts.push(Fact::text("length", text));
    }
    if let Some(sum) = sum {
        facts.push(Fact::text("XOR-32", format!("{:08x}", sum.xor)));
        facts.push(Fact::text("position sum", format!("{:016x}", sum.position)));
    }
    facts
}

/// Reads the sums from the file: of what it has, not of what arrived.
fn read_sum(complete: &Complete, recorder: &dyn Recorder) -> Result<XorSum, ProcedureError> {
    let shown = &complete.place.shown;
    let failed =
        |error: &dyn std::fmt::Display| ProcedureError::failed(format!("{shown}: {error}"));
    let source = PathInfoSource::open(Path::new(shown)).map_err(|error| failed(&error))?;
    let options = FastOptions {
        way: None,
        threads: None,
        cpus: affinity::allowed().len(),
        block: None,
        keep_going: false,
        stop: recorder.stop().now(),
    };
    let fast = read_fast(&source, &options, recorder.clock()).map_err(|error| failed(&error))?;
    if let Some(change) = fast.changed {
        return Err(failed(&format!("the file changed while its sum was read: {change}")));
    }
    match fast.sum.bytes == complete.bytes {
        true => Ok(fast.sum),
        false => Err(failed(&"the read for --sum was stopped; the file is complete")),
    }
}
