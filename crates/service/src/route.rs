//! Which resource a request asks for, and whether it may.

use std::borrow::Cow;

use crate::dose::Dose;
use crate::head::{HeadRequest, Method};
use crate::page::{DISK_TIME_MS_MAX, ServicePage};
use crate::refusal::{Refusal, Refused};
use crate::shared::ServiceShared;
use crate::target::ServiceTarget;
use crate::token::is_in;

#[derive(Debug)]
pub(crate) enum Route<'t> {
    Health,
    Page(ServicePage),
    /// Bytes from memory, by a congestion control of the connection's own.
    Source {
        bytes: u64,
        congestion: Option<String>,
    },
    /// The connection goes to a far end.
    Far,
    File(Cow<'t, [u8]>, Dose),
}

/// Most bytes of a source.
const SOURCE_BYTES_MAX: u64 = 1 << 30;

/// The page of far ends.
const FAR: &str = "far";

pub(crate) fn route<'t>(
    shared: &ServiceShared,
    request: &HeadRequest<'t>,
) -> Result<Route<'t>, Refused> {
    let target = ServiceTarget::parse(request.target)?;
    // A far end proves the token itself, without sending it.
    let is_far = matches!(&target, ServiceTarget::Control(name) if name == FAR);
    let token = shared.token.as_ref().filter(|_| !is_far);
    if token.is_some_and(|token| !is_in(token, request.fields.authorization)) {
        return Err(Refusal::Unauthorized.keep());
    }
    match target {
        ServiceTarget::File(_) if matches!(request.method, Method::Post | Method::Other) => {
            Err(Refusal::Method.close())
        }
        // Without a token only the address protects the files, and a browser of this host has it.
        ServiceTarget::File(_) if shared.token.is_none() && !may_read(shared, request) => {
            Err(Refusal::Foreign.keep())
        }
        ServiceTarget::File(path) => Ok(Route::File(path, dose(shared, request)?)),
        ServiceTarget::Control(name) => control(shared, request, &name),
    }
}

/// What the request asks for, else the serial section of the service.
fn dose(shared: &ServiceShared, request: &HeadRequest<'_>) -> Result<Dose, Refused> {
    let Some(value) = request.fields.dose else {
        return Ok(Dose { serial_ns: shared.serial_ns, ..Dose::default() });
    };
    if !is_ours(shared, request) {
        return Err(Refusal::Foreign.keep());
    }
    let mut dose = Dose::parse(value).ok_or(Refusal::Dose.keep())?;
    dose.serial_ns += shared.serial_ns;
    Ok(dose)
}

fn time_ms(text: &str) -> Option<u64> {
    let is_number = text.bytes().all(|b| b.is_ascii_digit());
    text.parse().ok().filter(|ms| is_number && (1..=DISK_TIME_MS_MAX).contains(ms))
}

/// `BYTES`, or `BYTES/CONGESTION`.
fn source(rest: &str) -> Option<Route<'static>> {
    let (bytes, congestion) =
        rest.split_once('/').map_or((rest, None), |(bytes, name)| (bytes, Some(name.to_owned())));
    let is_number = bytes.bytes().all(|b| b.is_ascii_digit());
    let bytes = bytes.parse().ok().filter(|&bytes| is_number && bytes <= SOURCE_BYTES_MAX)?;
    Some(Route::Source { bytes, congestion })
}

fn control(
    shared: &ServiceShared,
    request: &HeadRequest<'_>,
    name: &str,
) -> Result<Route<'static>, Refused> {
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
        "metrics" => Route::Page(ServicePage::Metrics),
        "telemetry" => Route::Page(ServicePage::Telemetry),
        "list" => Route::Page(ServicePage::List),
        "host" => Route::Page(ServicePage::Host),
        "evict" => Route::Page(ServicePage::Evict),
        "warm" => Route::Page(ServicePage::Warm),
        _ => match (name.strip_prefix("source/"), name.strip_prefix("disk/")) {
            (Some(rest), _) => source(rest).ok_or(Refusal::Source.keep())?,
            (_, Some(ms)) => {
                Route::Page(ServicePage::Disk(time_ms(ms).ok_or(Refusal::Time.keep())?))
            }
            _ => return Err(Refusal::NotFound.keep()),
        },
    };
    let changes =
        matches!(route, Route::Page(ServicePage::Evict | ServicePage::Warm | ServicePage::Disk(_)));
    match (changes, request.method, request.content_length) {
        (true, Method::Post, Some(_)) | (false, Method::Get | Method::Head, _) => Ok(route),
        (true, Method::Post, None) => Err(Refusal::LengthRequired.close()),
        (true, ..) => Err(Refusal::PostOnly.keep()),
        (false, ..) => Err(Refusal::Method.close()),
    }
}

/// HTTP/1.0 may have no Host; browsers do not use it.
fn may_read(shared: &ServiceShared, request: &HeadRequest<'_>) -> bool {
    request.fields.host.is_none() || is_ours(shared, request)
}

/// Whether Host and Origin name this server.
fn is_ours(shared: &ServiceShared, request: &HeadRequest<'_>) -> bool {
    shared.names.are_in(request.fields.host.unwrap_or_default(), request.fields.origin)
}
