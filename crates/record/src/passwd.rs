//! Names of users, as `/etc/passwd` has them.

/// The name of a user in the text of `/etc/passwd`.
#[must_use]
pub fn user_name(passwd: &str, uid: u32) -> Option<&str> {
    let uid = uid.to_string();
    passwd.lines().find_map(|line| {
        let mut fields = line.split(':');
        let name = fields.next()?;
        (fields.nth(1)? == uid).then_some(name)
    })
}

#[cfg(test)]
mod tests {
    use super::user_name;

    #[test]
    fn name_is_of_the_line_with_the_number() {
        let passwd = "root:x:0:0:root:/root:/bin/sh\n\nbad\nada:x:100:0::/srv/ada:/bin/sh\n";
        assert_eq!(
            [0, 100, 10].map(|uid| user_name(passwd, uid)),
            [Some("root"), Some("ada"), None]
        );
    }
}
