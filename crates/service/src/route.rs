//! Which resource a request asks for, and whether it may.

use std::borrow::Cow;
use std::net::{IpAddr, Ipv6Addr};

use crate::head::{Method, Request, split_port};
use crate::page::Page;
use crate::refusal::{Refusal, Refused};
use crate::shared::Shared;
use crate::target::Target;
use crate::token::is_in;

#[derive(Debug)]
pub(crate) enum Route<'t> {
    Health,
    Page(Page),
    /// The connection goes to a far end.
    Far,
    File(Cow<'t, [u8]>),
}

/// The page of far ends.
const FAR: &str = "far";

pub(crate) fn route<'t>(shared: &Shared, request: &Request<'t>) -> Result<Route<'t>, Refused> {
    let target = Target::of(request.target)?;
    // A far end proves the token itself, without sending it.
    let is_far = matches!(&target, Target::Control(name) if name == FAR);
    let token = shared.token.as_ref().filter(|_| !is_far);
    if token.is_some_and(|token| !is_in(token, request.fields.authorization)) {
        return Err(Refusal::Unauthorized.keep());
    }
    match target {
        Target::File(_) if matches!(request.method, Method::Post | Method::Other) => {
            Err(Refusal::Method.close())
        }
        Target::File(path) => Ok(Route::File(path)),
        Target::Control(name) => control(shared, request, &name),
    }
}

fn control(shared: &Shared, request: &Request<'_>, name: &str) -> Result<Route<'static>, Refused> {
    if !is_ours(shared, request) {
        return Err(Refusal::Foreign.keep());
    }
    let route = match name {
        "health" => Route::Health,
        FAR if shared.far.is_offered() => {
            let is_known = request.fields.upgrade == Some(fathom_far::UPGRADE.as_bytes());
            if !(request.upgrades && is_known && request.method == Method::Get) {
                return Err(Refusal::Upgrade.close());
            }
            Route::Far
        }
        "metrics" => Route::Page(Page::Metrics),
        "telemetry" => Route::Page(Page::Telemetry),
        "list" => Route::Page(Page::List),
        "host" => Route::Page(Page::Host),
        "evict" => Route::Page(Page::Evict),
        "warm" => Route::Page(Page::Warm),
        _ => return Err(Refusal::NotFound.keep()),
    };
    let changes = matches!(route, Route::Page(Page::Evict | Page::Warm));
    match (changes, request.method, request.content_length) {
        (true, Method::Post, Some(_)) | (false, Method::Get | Method::Head, _) => Ok(route),
        (true, Method::Post, None) => Err(Refusal::LengthRequired.close()),
        (true, ..) => Err(Refusal::PostOnly.keep()),
        (false, ..) => Err(Refusal::Method.close()),
    }
}

/// Whether Host and Origin name this server: a page from elsewhere whose name was made to resolve
/// to this address (DNS rebinding) must not reach the service itself.
fn is_ours(shared: &Shared, request: &Request<'_>) -> bool {
    let host = request.fields.host.unwrap_or_default();
    let origin = request.fields.origin;
    let is_same = origin.is_none_or(|origin| origin.strip_prefix(b"http://") == Some(host));
    is_same && std::str::from_utf8(host).is_ok_and(|host| is_own_name(&shared.names, host))
}

/// An address, `localhost` or a known name, with or without a port.
fn is_own_name(names: &[String], host: &str) -> bool {
    let (name, port) = split_port(host);
    let in_brackets = name.strip_prefix('[').and_then(|name| name.strip_suffix(']'));
    let is_address = match in_brackets {
        Some(name) => name.parse::<Ipv6Addr>().is_ok(),
        None => matches!(name.parse(), Ok(IpAddr::V4(_))),
    };
    let is_known = || names.iter().any(|known| known.eq_ignore_ascii_case(name));
    port.bytes().all(|b| b.is_ascii_digit())
        && (is_address || name.eq_ignore_ascii_case("localhost") || is_known())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_addresses_and_known_names_are_own() {
        let names = ["box".to_owned()];
        for host in ["127.0.0.1", "127.0.0.1:80", "[::1]", "[::1]:3284", "LocalHost:1", "BOX:2"] {
            assert!(is_own_name(&names, host), "{host}");
        }
        let foreign =
            ["", "evil.example", "box.evil.example", "::1", "[box]", "localhost.", "box:x", "[::1"];
        for host in foreign {
            assert!(!is_own_name(&names, host), "{host}");
        }
    }
}
