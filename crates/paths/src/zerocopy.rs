//! Sends without a copy, and what the kernel says of them afterwards.

use std::io;
use std::mem::{size_of, zeroed};
use std::os::fd::{AsRawFd as _, BorrowedFd};

use rustix::io::Errno;

use crate::window::result;

/// Calls with MSG_ZEROCOPY.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Notified {
    /// Made.
    pub sent: u64,
    /// Notified as sent from the pages themselves.
    pub zero_copy: u64,
    /// Notified as copied after all (SO_EE_CODE_ZEROCOPY_COPIED).
    pub copied: u64,
}

impl Notified {
    pub fn is_complete(&self) -> bool {
        self.zero_copy + self.copied >= self.sent
    }
}

pub(crate) fn enable(socket: BorrowedFd<'_>) -> io::Result<()> {
    let on: libc::c_int = 1;
    // SAFETY: the option is an int, which outlives the call.
    let done = unsafe {
        libc::setsockopt(
            socket.as_raw_fd(),
            libc::SOL_SOCKET,
            libc::SO_ZEROCOPY,
            (&raw const on).cast(),
            size_of::<libc::c_int>() as u32,
        )
    };
    if done == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// SO_EE_ORIGIN_ZEROCOPY and SO_EE_CODE_ZEROCOPY_COPIED of linux/errqueue.h.
const ORIGIN_ZEROCOPY: u8 = 5;
const CODE_COPIED: u8 = 1;

/// Room for one control message.
const CONTROL_BYTES: usize = 128;

#[repr(C, align(8))]
struct ZerocopyControl([u8; CONTROL_BYTES]);

/// Reads the notifications that have come, without waiting. One stands for a range of calls.
pub(crate) fn reap(socket: BorrowedFd<'_>, notified: &mut Notified) -> Result<(), Errno> {
    loop {
        let mut control = ZerocopyControl([0; CONTROL_BYTES]);
        // SAFETY: all zeroes are a header without addresses and data.
        let mut header: libc::msghdr = unsafe { zeroed() };
        header.msg_control = control.0.as_mut_ptr().cast();
        header.msg_controllen = CONTROL_BYTES as _;
        let flags = libc::MSG_ERRQUEUE | libc::MSG_DONTWAIT;
        // SAFETY: the header and its buffer outlive the call.
        let done = unsafe { libc::recvmsg(socket.as_raw_fd(), &raw mut header, flags) };
        match result(done) {
            Ok(_) => {}
            Err(Errno::AGAIN) => return Ok(()),
            Err(Errno::INTR) => continue,
            Err(error) => return Err(error),
        }
        // SAFETY: the kernel filled the header, whose control buffer still exists.
        let message = unsafe { libc::CMSG_FIRSTHDR(&raw const header).as_ref() };
        let Some(message) = message else { continue };
        let is_error = (message.cmsg_level, message.cmsg_type) == (libc::SOL_IP, libc::IP_RECVERR)
            || (message.cmsg_level, message.cmsg_type) == (libc::SOL_IPV6, libc::IPV6_RECVERR);
        if !is_error {
            continue;
        }
        // SAFETY: a message of this type holds the structure, maybe unaligned.
        let error =
            unsafe { libc::CMSG_DATA(message).cast::<libc::sock_extended_err>().read_unaligned() };
        if error.ee_origin != ORIGIN_ZEROCOPY {
            continue;
        }
        let calls = u64::from(error.ee_data.wrapping_sub(error.ee_info)) + 1;
        match error.ee_code {
            CODE_COPIED => notified.copied += calls,
            _ => notified.zero_copy += calls,
        }
    }
}
