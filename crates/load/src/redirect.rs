//! Redirects of the first request: which are followed, and why one leads nowhere.

use fathom_http::Url;
use fathom_record::escaped;

use crate::control::{Control, ControlAnswer};
use crate::control_error::ControlError;
use crate::engine::{REDIRECTED, REDIRECTS_MAX, redirects};
use crate::message::Message;
use crate::options::LoadOptions;

/// Why the first request led nowhere although redirects are followed.
const ASTRAY: &str = "redirected to another scheme, host or port; load that URL";
const NOWHERE: &str = "redirected to nowhere: the answer has no Location";
const NO_URL: &str = "redirected to what is no URL that can be loaded";
const LOOP: &str = "redirected more than 5 times within the server, as by a loop";

/// A URL without `user:password@`.
fn without_user(url: &str) -> String {
    let Some((scheme, rest)) = url.split_once("//") else { return url.to_owned() };
    let authority = rest.find(['/', '?', '#']).unwrap_or(rest.len());
    let from = rest[..authority].rfind('@').map_or(0, |at| at + 1);
    format!("{scheme}//{}", &rest[from..])
}

/// Whether a redirect stays within the server.
fn is_inside(load: &LoadOptions, location: Option<&str>) -> bool {
    let base = Url::parse(&load.target).ok();
    base.is_some_and(|base| {
        let to = location.and_then(|to| base.joined(to));
        to.is_some_and(|to| to.has_origin_of(&base))
    })
}

/// The answer to the first request, after the redirects that are followed.
pub(crate) fn first_answer(
    load: &LoadOptions,
    control: &mut Control,
    path: &str,
    message: &Message,
) -> Result<ControlAnswer, ControlError> {
    let mut answer = control.exchange(message, path, 0)?;
    let Ok(base) = Url::parse(&load.target) else { return Ok(answer) };
    let mut from = Url { path: path.to_owned(), ..base.clone() };
    for _ in 0..REDIRECTS_MAX {
        let is_followed = load.follow && redirects(answer.status);
        let to = answer.location.as_ref().filter(|_| is_followed);
        let to = to.and_then(|to| from.joined(to)).filter(|to| to.has_origin_of(&base));
        let Some(to) = to else { break };
        from = to;
        answer = control.exchange(message, &from.path, 0)?;
    }
    Ok(answer)
}

/// Why a redirect is not followed, and where it leads.
pub(crate) fn why(load: &LoadOptions, location: Option<&str>) -> String {
    let base = Url::parse(&load.target).ok();
    let is_url = location.and_then(|to| base?.joined(to)).is_some();
    let why = match load.follow {
        true if location.is_none_or(str::is_empty) => NOWHERE,
        true if !is_url => NO_URL,
        true if is_inside(load, location) => LOOP,
        true => ASTRAY,
        false => REDIRECTED,
    };
    // Not its user and password.
    let to = |to: &str| format!(": {}", crate::paths::shown(&escaped(&without_user(to))));
    why.to_owned() + &location.filter(|to| !to.is_empty()).map_or(String::new(), to)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn loop_within_the_server_is_not_another_server() {
        let load = <LoadOptions as clap::Parser>::parse_from(["load", "http://a:8080/x"]);
        let inside = ["/y", "y", "http://a:8080/z", "http://b:8080/", "https://a:8080/"];
        let inside = inside.map(|to| is_inside(&load, Some(to)));
        assert_eq!(inside, [true, true, true, false, false]);
        assert!(!is_inside(&load, None));
    }

    #[test]
    fn user_and_password_of_a_redirect_are_not_shown() {
        for (url, shown) in [
            ("http://u:p@a:80/b@c", "http://a:80/b@c"),
            ("http://u:p@w@a", "http://a"),
            ("//u@a/", "//a/"),
            ("/b@c", "/b@c"),
            ("http://a/?x=@", "http://a/?x=@"),
        ] {
            assert_eq!(without_user(url), shown);
        }
    }
}
