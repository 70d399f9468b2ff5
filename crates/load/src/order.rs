//! A load as an order to members: options of a closed list, checked at both ends, of which a member
//! makes its own command line. No option of the list names a file of the member.

use clap::parser::ValueSource;
use clap::{Arg, ArgMatches, CommandFactory as _, Parser as _};
use fathom_analysis::load::SWEEPS;
use fathom_http::Url;
use fathom_metric::Procedure as _;
use serde::{Deserialize, Serialize};

use crate::options::{LoadOptions, OPTIONS};
use crate::share::{Share, planned_ns};

/// Options of the merged load; the token of the file is sent to members apart.
const OF_ALL: [&str; 4] = ["target", "fail_if", "slo", "token_file"];
/// Bytes of a URL and of all options, at most.
const BYTES_MAX: usize = 32 << 10;
/// A load of members takes at most so many hours: a coordinator waits an hour longer.
const HOURS_MAX: u64 = 5;
const HOUR_NS: u64 = 3_600_000_000_000;
/// Clients of each member, where neither these nor rates are given.
const CLIENTS: [u32; 4] = [1, 2, 4, 8];

/// The load of all members.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LoadOrder {
    pub url: String,
    /// Each as one argument: `--time=30s`, `--fresh`.
    pub options: Vec<String>,
}

/// Whether an option is known to a load of several members.
pub fn is_shared(option: &str) -> bool {
    OPTIONS.contains(&option) || OF_ALL.contains(&option)
}

impl LoadOrder {
    /// From the command line of the coordinator.
    ///
    /// # Errors
    /// An option that is not for several members, or a value that no member would accept.
    pub fn from_matches(matches: &ArgMatches) -> Result<Self, String> {
        let command = LoadOptions::command();
        let is_given = |argument: &&Arg| {
            let source = matches.value_source(argument.get_id().as_str());
            source == Some(ValueSource::CommandLine)
        };
        let mut options = Vec::new();
        for argument in command.get_arguments().filter(is_given) {
            let id = argument.get_id().as_str();
            let Some(long) = argument.get_long().filter(|_| OPTIONS.contains(&id)) else {
                if OF_ALL.contains(&id) {
                    continue;
                }
                let option = argument.get_long().unwrap_or(id);
                return Err(format!("--{option}: not with several members"));
            };
            if !argument.get_action().takes_values() {
                options.push(format!("--{long}"));
                continue;
            }
            let values = matches.get_raw(id).into_iter().flatten();
            options.extend(values.map(|value| format!("--{long}={}", value.to_string_lossy())));
        }
        let url = matches.get_one::<String>("target").cloned().unwrap_or_default();
        let order = Self { url, options };
        order.check(Share::known(0, 1)).map(|_| order)
    }

    /// With clients for so many members, if it has neither clients nor rates.
    #[must_use]
    pub fn for_members(mut self, of: u32) -> Self {
        let has = |name: &str| self.options.iter().any(|option| option.starts_with(name));
        if !has("--clients=") && !has("--rate=") {
            let clients = CLIENTS.map(|clients| (clients * of).to_string());
            self.options.push(format!("--clients={}", clients.join(",")));
        }
        self
    }

    /// The load of all members, with the conditions of another one.
    ///
    /// # Errors
    /// As [`Self::check`].
    pub fn whole(&self, conditions: &LoadOptions) -> Result<LoadOptions, String> {
        let (fail_if, slo) = (conditions.fail_if.clone(), conditions.slo.clone());
        Ok(LoadOptions { share: None, fail_if, slo, ..self.check(Share::known(0, 1))? })
    }

    /// The arguments of `fathom load` of a member, if it may be asked for that.
    ///
    /// # Errors
    /// What it may not be asked for.
    pub fn arguments(&self, share: Share) -> Result<Vec<String>, String> {
        self.check(share)?;
        Ok([self.line(share), vec!["--".to_owned(), self.url.clone()]].concat())
    }

    fn line(&self, share: Share) -> Vec<String> {
        let load = ["load".to_owned(), format!("--share={share}")];
        load.into_iter().chain(self.options.iter().cloned()).collect()
    }

    /// The load of this share.
    ///
    /// # Errors
    /// What a member may not be asked for.
    pub fn check(&self, share: Share) -> Result<LoadOptions, String> {
        let bytes = self.options.iter().map(String::len).sum::<usize>() + self.url.len();
        if bytes > BYTES_MAX {
            return Err(format!("a load of {bytes} bytes, at most {BYTES_MAX} are accepted"));
        }
        let command = LoadOptions::command();
        let of_name = |name: &str| command.get_arguments().find(|it| it.get_long() == Some(name));
        for option in &self.options {
            let name = option.strip_prefix("--").unwrap_or("").split('=').next().unwrap_or("");
            let known = of_name(name).is_some_and(|it| OPTIONS.contains(&it.get_id().as_str()));
            if !known {
                return Err(format!("the option `{}` is not accepted", printable(option)));
            }
        }
        let url = Url::parse(&self.url).map_err(|error| error.to_string())?;
        if !(self.url.starts_with("http://") || self.url.starts_with("https://")) {
            return Err(format!("{}: expected http:// or https://", url.authority()));
        }
        let arguments = [self.line(share), vec!["--".to_owned(), self.url.clone()]].concat();
        let load = LoadOptions::try_parse_from(arguments).map_err(|error| {
            let text = error.to_string();
            let line = text.lines().next().unwrap_or_default();
            printable(line.trim_start_matches("error: "))
        })?;
        if load.urls.as_ref().is_some_and(|urls| !urls.starts_with('/')) {
            return Err("--urls: expected a pattern of paths, such as /f{0..9999}".to_owned());
        }
        load.check().map_err(|error| error.to_string())?;
        match load.share_ns() / HOUR_NS {
            ..HOURS_MAX => Ok(load),
            hours => Err(format!("it takes {hours} h, below {HOURS_MAX} h are accepted")),
        }
    }
}

impl LoadOptions {
    /// The time of all windows by the plan of a share.
    pub fn share_ns(&self) -> u64 {
        let steps = [self.closed().len(), self.open().len()];
        let windows = steps.map(|steps| (self.all_cases().len() * steps * SWEEPS) as u64);
        planned_ns(self.window_ns(), windows)
    }
}

fn printable(text: &str) -> String {
    fathom_record::escaped(text).chars().take(200).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::step::Step;

    fn order(line: &str) -> Result<LoadOrder, String> {
        let command = LoadOptions::command().name("load");
        let matches = command.try_get_matches_from(line.split_whitespace()).expect(line);
        LoadOrder::from_matches(&matches)
    }

    #[test]
    fn order_is_the_command_line_of_each_member() {
        let line = "load http://far/ -c 1,8 --time 12s --fresh --urls /f{0..9} --fail-if p99>1ms";
        let order = order(line).unwrap();
        let text = serde_json::to_string(&order).unwrap();
        let order: LoadOrder = serde_json::from_str(&text).unwrap();
        let arguments = order.arguments(Share::known(1, 4)).unwrap();
        let expected = [
            "load",
            "--share=2/4",
            "--clients=1,8",
            "--time=12s",
            "--urls=/f{0..9}",
            "--fresh",
            "--",
            "http://far/",
        ];
        assert_eq!(arguments, expected);
        let load = order.check(Share::known(1, 4)).unwrap();
        assert_eq!(load.steps().iter().map(Step::clients).collect::<Vec<_>>(), [0, 2]);
        let conditions = LoadOptions::parse_from(line.split_whitespace());
        let whole = order.clone().for_members(4).whole(&conditions).unwrap();
        assert_eq!((whole.closed(), whole.share), (vec![1, 8], None));
        assert!(whole.fail_if.is_some());
        let usual = LoadOrder { options: Vec::new(), ..order }.for_members(3);
        assert_eq!(usual.options, ["--clients=3,6,12,24"]);
    }

    #[test]
    fn what_is_not_for_several_members_is_named() {
        for (options, option) in [
            ("--find-max --slo p99<1ms", "find-max"),
            ("--prove", "prove"),
            ("--requests 9", "requests"),
            ("--data-file d", "data-file"),
            ("--unix-socket s", "unix-socket"),
            ("--server-cache cold", "server-cache"),
        ] {
            let refused = order(&format!("load http://far/ {options}")).unwrap_err();
            assert_eq!(refused, format!("--{option}: not with several members"));
        }
    }

    #[test]
    fn member_refuses_what_no_coordinator_may_ask_for() {
        let refused = |url: &str, options: &[&str]| {
            let options = options.iter().map(|it| (*it).to_owned()).collect();
            LoadOrder { url: url.to_owned(), options }.arguments(Share::known(0, 2)).unwrap_err()
        };
        let hostile = [
            "--token-file=/etc/shadow",
            "--token=x",
            "--data-file=/etc/shadow",
            "--headers=/etc/passwd",
            "--cacert=/etc/passwd",
            "--unix-socket=/run/docker.sock",
            "--make=1x1MB",
            "--pid=1",
            "--metrics=0.0.0.0:80",
            "--share=1/1",
            "--store=/tmp/x",
            "-H=Host: a",
            "-o=/tmp/x",
            "http://other/",
            "--",
            "",
            "--time=1s --make=1x1MB/",
        ];
        for option in hostile {
            let text = refused("http://far/", &[option]);
            assert!(!text.is_empty() && !text.contains('\u{1b}'), "{option}: {text}");
        }
        for option in &hostile[..14] {
            assert!(refused("http://far/", &[option]).ends_with("is not accepted"), "{option}");
        }
        for url in ["file:///etc/passwd", "ftp://far/", "/tmp", "--make", "", "http://"] {
            refused(url, &[]);
        }
        assert!(refused("http://far/", &["--urls=lists/a"]).contains("a pattern of paths"));
        assert!(refused("http://far/", &["--clients=200000"]).contains("100000 clients"));
        assert!(refused("http://far/", &["--time=30h"]).contains("below 5 h"));
        let long = format!("--urls=/{}", "x".repeat(BYTES_MAX));
        assert!(refused("http://far/", &[&long]).contains("bytes"));
    }
}
