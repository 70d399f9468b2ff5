/* SPDX-License-Identifier: (GPL-2.0 WITH Linux-syscall-note) OR MIT */
/*
 * Interface of the Fathom kernel devices. Both the module and programs include this file.
 *
 * /dev/fathom_master sends and /dev/fathom_slave receives, over one TCP connection per open file.
 * Each open file is a session of its own: a socket in the network namespace of the opener, a
 * window of pages for mmap(2), and counters. Open both devices with O_RDWR: mmap(2) requires it.
 *
 * Order of calls: HELLO, then ATTACH, or LISTEN and ACCEPT, or CONNECT; per file FRAME if the
 * connection carries more than one; then write(2) or SEND on the master, read(2) or RECEIVE on the
 * slave; FINISH at the end of the connection; DETACH before the next one.
 *
 * Data:
 * - write(2) and SEND block until everything was sent; read(2) returns as soon as some bytes
 *   arrived; RECEIVE blocks until the window part that was asked for is full.
 * - A call that moved some bytes before a signal, the time-out or an error returns their number.
 *   The error, if it persists, follows from the next call.
 * - Zero bytes mean the end of the connection, or of the frame.
 * - The master has no read(2), the slave no write(2): EINVAL. SEND on the slave and RECEIVE on
 *   the master: EOPNOTSUPP.
 * - poll(2), epoll(7) and SIGIO report the state of the connection, and before there is one, that
 *   of the listening socket; frames do not change it.
 *
 * Errors that any call can return: EINTR (a signal arrived first; nothing moved; no call is
 * restarted, since its time-out would begin again), ETIMEDOUT (nothing moved in time), EAGAIN
 * (O_NONBLOCK: the call, or another one on this file, would have to wait), ENOTCONN (no
 * connection), EINVAL (a value out of range or a reserved field that is not zero), EPROTO (an ioctl
 * before HELLO), EPIPE (this side was shut down; no SIGPIPE), ECONNRESET (reset, or closed within a
 * frame), ENOTTY (no such ioctl, or a structure of another size).
 */
#ifndef _UAPI_FATHOM_H
#define _UAPI_FATHOM_H

#include <linux/ioctl.h>
#include <linux/types.h>

/* Raised when a program built with an older header could no longer use the devices. */
#define FATHOM_VERSION 1

#define FATHOM_MASTER_NAME "fathom_master"
#define FATHOM_SLAVE_NAME "fathom_slave"

/* 16 MiB in pages of 4 KiB. */
#define FATHOM_WINDOW_PAGES_MAX 4096

/* Ten minutes. */
#define FATHOM_TIMEOUT_MS_MAX 600000

/**
 * enum fathom_role - which device a file was opened from
 * @FATHOM_ROLE_MASTER: sends
 * @FATHOM_ROLE_SLAVE: receives
 */
enum fathom_role {
	FATHOM_ROLE_MASTER = 1,
	FATHOM_ROLE_SLAVE = 2,
};

/**
 * struct fathom_hello - agreement on the version of this header
 * @version: in: FATHOM_VERSION of the program; EPROTO if the module has another
 * @struct_bytes: in: FATHOM_STRUCT_BYTES of the program; EPROTO if the module has another
 * @role: out: enum fathom_role
 * @page_bytes: out: size of a page of a window
 * @window_pages_max: out: largest window
 * @timeout_ms_default: out: time-out of read(2), write(2) and of calls whose timeout_ms is 0
 * @timeout_ms_max: out: longest time-out
 * @reserved: 0
 */
struct fathom_hello {
	__u32 version;
	__u32 struct_bytes;
	__u32 role;
	__u32 page_bytes;
	__u32 window_pages_max;
	__u32 timeout_ms_default;
	__u32 timeout_ms_max;
	__u32 reserved;
};

/**
 * struct fathom_endpoint - an address and the longest time to wait for it
 * @family: AF_INET or AF_INET6
 * @port: in host byte order; for LISTEN 0 chooses a free one, which is returned
 * @scope_id: interface index of an IPv6 link-local address, else 0
 * @address: in network byte order; IPv4 uses the first four bytes, the others are 0
 * @timeout_ms: 1 to FATHOM_TIMEOUT_MS_MAX; 0: the default; LISTEN: must be 0
 * @reserved: 0
 */
struct fathom_endpoint {
	__u16 family;
	__u16 port;
	__u32 scope_id;
	__u8 address[16];
	__u32 timeout_ms;
	__u32 reserved;
};

/**
 * struct fathom_attach - a connected TCP socket of the caller
 * @fd: the socket; it stays open and usable in the caller
 * @reserved: 0
 */
struct fathom_attach {
	__s32 fd;
	__u32 reserved;
};

/**
 * struct fathom_frame - start of a file in a connection that carries several
 * @length: bytes of the file, at most 2^63 - 1; in for the master, out for the slave
 * @timeout_ms: as in struct fathom_endpoint
 * @reserved: 0
 */
struct fathom_frame {
	__aligned_u64 length;
	__u32 timeout_ms;
	__u32 reserved;
};

/**
 * struct fathom_window - kernel pages of the session, for mmap(2), SEND and RECEIVE
 * @pages: 1 to FATHOM_WINDOW_PAGES_MAX; 0 frees the window
 * @reserved: 0
 */
struct fathom_window {
	__u32 pages;
	__u32 reserved;
};

/**
 * struct fathom_transfer - a part of the window to send from or receive into
 * @offset: first byte
 * @length: number of bytes, at least 1; offset + length must lie within the window
 * @timeout_ms: as in struct fathom_endpoint
 * @reserved: 0
 */
struct fathom_transfer {
	__u32 offset;
	__u32 length;
	__u32 timeout_ms;
	__u32 reserved;
};

/**
 * struct fathom_finish - the longest time to wait for the end of the connection
 * @timeout_ms: as in struct fathom_endpoint
 * @reserved: 0
 */
struct fathom_finish {
	__u32 timeout_ms;
	__u32 reserved;
};

/* Bits of the flags of struct fathom_pte. */
#define FATHOM_PTE_PRESENT 0x01 /* the CPU translates the address with this entry */
#define FATHOM_PTE_WRITE 0x02
#define FATHOM_PTE_DIRTY 0x04
#define FATHOM_PTE_ACCESSED 0x08
#define FATHOM_PTE_LEAF 0x10 /* a page, not a table of the next level */
#define FATHOM_PTE_FRAME 0x20 /* the frame number was not masked */
#define FATHOM_PTE_MAPPED 0x40 /* the address belongs to a mapping (VMA) */

/**
 * struct fathom_pte - the page-table entry of an address in the caller's address space
 * @address: in: any user address; EFAULT for an address of the kernel
 * @entry: out: the entry as in memory. Its frame number is 0, and an entry that is not present is
 *         0 altogether, unless caller and opener have CAP_SYS_ADMIN, as in /proc/pid/pagemap
 * @page_bytes: out: bytes that an entry of this level maps
 * @level: out: level at which the walk ended: 1 (PTE, 4 KiB), 2 (PMD, 2 MiB), 3 (PUD, 1 GiB), 4
 *         (P4D), 5 (PGD)
 * @flags: out: FATHOM_PTE_*; without FATHOM_PTE_MAPPED nothing else is valid
 * @levels: out: levels of the page table, 4 or 5
 * @reserved: 0
 */
struct fathom_pte {
	__aligned_u64 address;
	__aligned_u64 entry;
	__aligned_u64 page_bytes;
	__u32 level;
	__u32 flags;
	__u32 levels;
	__u32 reserved;
};

/**
 * struct fathom_stats - counters of a session since it was opened
 * @bytes: payload bytes moved; lengths of frames are not included
 * @calls: calls of read(2), write(2), SEND and RECEIVE that moved at least a byte
 * @waits: times a call slept
 * @waits_ns: how long these took
 * @connections: sockets accepted, connected or attached
 * @frames: frames started
 * @window_pages: size of the window
 * @mappings: memory mappings of it at present
 */
struct fathom_stats {
	__aligned_u64 bytes;
	__aligned_u64 calls;
	__aligned_u64 waits;
	__aligned_u64 waits_ns;
	__aligned_u64 connections;
	__aligned_u64 frames;
	__u32 window_pages;
	__u32 mappings;
};

/* Sizes of all structures, for HELLO. */
#define FATHOM_STRUCT_BYTES                                                    \
	(sizeof(struct fathom_hello) + sizeof(struct fathom_endpoint) +        \
	 sizeof(struct fathom_attach) + sizeof(struct fathom_frame) +          \
	 sizeof(struct fathom_window) + sizeof(struct fathom_transfer) +       \
	 sizeof(struct fathom_finish) + sizeof(struct fathom_pte) +            \
	 sizeof(struct fathom_stats))

#define FATHOM_IOC 0xFA

/* The first call. */
#define FATHOM_IOC_HELLO _IOWR(FATHOM_IOC, 0x00, struct fathom_hello)

/*
 * Listen at an address of the opener's network namespace; returns the port. EISCONN if the session
 * listens already. There is no default address: 127.0.0.1 keeps it on this machine.
 */
#define FATHOM_IOC_LISTEN _IOWR(FATHOM_IOC, 0x01, struct fathom_endpoint)

/* Wait for a connection; returns the peer. EISCONN if there is one, EDESTADDRREQ without LISTEN. */
#define FATHOM_IOC_ACCEPT _IOWR(FATHOM_IOC, 0x02, struct fathom_endpoint)

/* Connect; waits in spite of O_NONBLOCK. EISCONN, ECONNREFUSED and the like. */
#define FATHOM_IOC_CONNECT _IOW(FATHOM_IOC, 0x03, struct fathom_endpoint)

/*
 * Use a connected TCP socket of the caller. EISCONN if there is a connection, EBADF, ENOTSOCK,
 * EPROTONOSUPPORT (not TCP), ENOTCONN, EXDEV (not of the opener's network namespace).
 */
#define FATHOM_IOC_ATTACH _IOW(FATHOM_IOC, 0x04, struct fathom_attach)

/*
 * Give the connection up. It is closed, unless it was attached and is still open in a program. The
 * listening socket, the window and the counters stay.
 */
#define FATHOM_IOC_DETACH _IO(FATHOM_IOC, 0x05)

/*
 * Send or receive the length of the next file, 8 bytes in network byte order. From then on write(2)
 * and SEND take no more than that many bytes (ENOSPC after the last one), and read(2) and RECEIVE
 * return no more (0 after the last one). EBUSY while bytes of the last file are outstanding;
 * ENODATA when the peer ended the connection between two files; EPROTO for a length above 2^63 - 1.
 * After EINTR, ETIMEDOUT and EAGAIN the call is to be repeated, by the master with the same length.
 */
#define FATHOM_IOC_FRAME _IOWR(FATHOM_IOC, 0x06, struct fathom_frame)

/* Allocate the window anew, filled with zeros. EBUSY while it is mapped. */
#define FATHOM_IOC_WINDOW _IOW(FATHOM_IOC, 0x07, struct fathom_window)

/* Send from the window, or receive into it; the result is the number of bytes. ENXIO: no window. */
#define FATHOM_IOC_SEND _IOW(FATHOM_IOC, 0x08, struct fathom_transfer)
#define FATHOM_IOC_RECEIVE _IOW(FATHOM_IOC, 0x09, struct fathom_transfer)

/*
 * Shut down the sending direction and wait until the peer did so too, in spite of O_NONBLOCK. It
 * can be repeated, as after ETIMEDOUT. Received bytes that were not read yet stay readable.
 */
#define FATHOM_IOC_FINISH _IOW(FATHOM_IOC, 0x0a, struct fathom_finish)

#define FATHOM_IOC_PTE _IOWR(FATHOM_IOC, 0x0b, struct fathom_pte)
#define FATHOM_IOC_STATS _IOR(FATHOM_IOC, 0x0c, struct fathom_stats)

#endif /* _UAPI_FATHOM_H */
