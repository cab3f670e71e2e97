//! Devices on unix sockets by the NBD protocol (fixed newstyle, simple replies), for virtual machines.
//! Numbers: github.com/NetworkBlockDevice/nbd, doc/proto.md. Fields are big-endian.

use std::io::{self, Read, Write};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

use crate::device::{Command, Device};
use crate::drive::Kind;
use crate::fault::{EIO, EROFS};

const OPTION_MAGIC: u64 = 0x4948_4156_454F_5054; // IHAVEOPT
const OPTION_REPLY: u64 = 0x0003_E889_0455_65A9;
const REQUEST_MAGIC: u32 = 0x2560_9513;
const REPLY_MAGIC: u32 = 0x6744_6698;

const OPT_EXPORT_NAME: u32 = 1;
const OPT_ABORT: u32 = 2;
const OPT_LIST: u32 = 3;
const OPT_INFO: u32 = 6;
const OPT_GO: u32 = 7;
const REP_ACK: u32 = 1;
const REP_SERVER: u32 = 2;
const REP_INFO: u32 = 3;
const REP_UNSUPPORTED: u32 = 1 << 31 | 1;

/// Has flags, flush, FUA (nothing is held back, so it costs nothing), trim.
const FLAGS: u16 = 1 | 1 << 2 | 1 << 3 | 1 << 5;
const FLAG_ROTATIONAL: u16 = 1 << 4;
/// What a client may send in one piece before it is taken for a mistake.
const LARGEST_OPTION: u32 = 64 << 10;
const LARGEST_REQUEST: u32 = 32 << 20;

/// Serves one device on a socket, a thread a connection, as long as the program runs.
///
/// # Errors
/// If the socket cannot be made.
pub fn listen(socket: &Path, device: Arc<Device>) -> io::Result<()> {
    match std::fs::remove_file(socket) {
        Err(e) if e.kind() != io::ErrorKind::NotFound => return Err(e),
        _ => {}
    }
    let listener = UnixListener::bind(socket)?;
    std::thread::Builder::new().name(format!("nbd {}", device.name())).spawn(move || {
        for link in listener.incoming().flatten() {
            let device = Arc::clone(&device);
            let served = std::thread::Builder::new().name("nbd link".into()).spawn(move || {
                // A client that goes away is no trouble of ours.
                let _ = serve(link, &device);
            });
            if let Err(error) = served {
                eprintln!("spindle-disks: no thread for an nbd client: {error}");
            }
        }
    })?;
    Ok(())
}

fn number<const N: usize>(link: &mut UnixStream) -> io::Result<[u8; N]> {
    let mut bytes = [0; N];
    link.read_exact(&mut bytes)?;
    Ok(bytes)
}

fn bad(what: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, what.to_owned())
}

fn serve(mut link: UnixStream, device: &Device) -> io::Result<()> {
    if !negotiate(&mut link, device)? {
        return Ok(());
    }
    let answers = Arc::new(Mutex::new(link.try_clone()?));
    loop {
        if u32::from_be_bytes(number(&mut link)?) != REQUEST_MAGIC {
            return Err(bad("not a request"));
        }
        let _flags: [u8; 2] = number(&mut link)?;
        let command = u16::from_be_bytes(number(&mut link)?);
        let cookie: [u8; 8] = number(&mut link)?;
        let at = u64::from_be_bytes(number(&mut link)?);
        let len = u32::from_be_bytes(number(&mut link)?);
        // A trim has no data, so it may be as long as it likes.
        if len > LARGEST_REQUEST && command != 4 {
            return Err(bad("a request over 32 MiB"));
        }
        let to = Arc::clone(&answers);
        let answer = Box::new(move |result: Result<Vec<u8>, i32>| {
            let _ = reply(&mut to.lock().unwrap_or_else(PoisonError::into_inner), cookie, result);
        });
        let (kind, len_bytes, data) = match command {
            0 => (Kind::Read, u64::from(len), Vec::new()),
            1 => {
                let mut data = vec![0; len as usize];
                link.read_exact(&mut data)?;
                (Kind::Write, u64::from(len), data)
            }
            2 => return Ok(()),
            3 => (Kind::Flush, 0, Vec::new()),
            4 => {
                // Punch a hole, keep the size (linux/falloc.h).
                answer(device.allocate(3, at, u64::from(len)).map(|()| Vec::new()));
                continue;
            }
            _ => {
                answer(Err(22));
                continue;
            }
        };
        device.submit(Command { kind, at, len_bytes, data, answer });
    }
}

/// NBD has its own short list of errors; numbers are as on Linux.
fn reply(link: &mut UnixStream, cookie: [u8; 8], result: Result<Vec<u8>, i32>) -> io::Result<()> {
    let (errno, body) = match result {
        Ok(body) => (0, body),
        Err(EROFS) => (1, Vec::new()),
        Err(errno) => (if matches!(errno, 22 | 28) { errno } else { EIO }, Vec::new()),
    };
    let mut out = Vec::with_capacity(16 + body.len());
    out.extend_from_slice(&REPLY_MAGIC.to_be_bytes());
    out.extend_from_slice(&errno.to_be_bytes());
    out.extend_from_slice(&cookie);
    out.extend_from_slice(&body);
    link.write_all(&out)
}

/// Whether the client wants to go on with requests.
fn negotiate(link: &mut UnixStream, device: &Device) -> io::Result<bool> {
    let flags = FLAGS | if device.is_rotating() { FLAG_ROTATIONAL } else { 0 };
    link.write_all(b"NBDMAGIC")?;
    link.write_all(&OPTION_MAGIC.to_be_bytes())?;
    link.write_all(&3_u16.to_be_bytes())?; // fixed newstyle, no zeroes
    let client = u32::from_be_bytes(number(link)?);
    loop {
        if u64::from_be_bytes(number(link)?) != OPTION_MAGIC {
            return Err(bad("not an option"));
        }
        let option = u32::from_be_bytes(number(link)?);
        let len = u32::from_be_bytes(number(link)?);
        if len > LARGEST_OPTION {
            return Err(bad("an option over 64 KiB"));
        }
        let mut data = vec![0; len as usize];
        link.read_exact(&mut data)?;
        let mut tell = |kind: u32, body: &[u8]| -> io::Result<()> {
            link.write_all(&OPTION_REPLY.to_be_bytes())?;
            link.write_all(&option.to_be_bytes())?;
            link.write_all(&kind.to_be_bytes())?;
            link.write_all(&(body.len() as u32).to_be_bytes())?;
            link.write_all(body)
        };
        match option {
            OPT_EXPORT_NAME => {
                link.write_all(&device.size_bytes().to_be_bytes())?;
                link.write_all(&flags.to_be_bytes())?;
                if client & 2 == 0 {
                    link.write_all(&[0; 124])?;
                }
                return Ok(true);
            }
            OPT_INFO | OPT_GO => {
                let mut export = vec![0, 0]; // NBD_INFO_EXPORT
                export.extend_from_slice(&device.size_bytes().to_be_bytes());
                export.extend_from_slice(&flags.to_be_bytes());
                tell(REP_INFO, &export)?;
                let mut sizes = vec![0, 3]; // NBD_INFO_BLOCK_SIZE: least, preferred, most
                for size in [1, 4096, LARGEST_REQUEST] {
                    sizes.extend_from_slice(&size.to_be_bytes());
                }
                tell(REP_INFO, &sizes)?;
                tell(REP_ACK, &[])?;
                if option == OPT_GO {
                    return Ok(true);
                }
            }
            OPT_LIST => {
                let name = device.name().as_bytes();
                let mut body = (name.len() as u32).to_be_bytes().to_vec();
                body.extend_from_slice(name);
                tell(REP_SERVER, &body)?;
                tell(REP_ACK, &[])?;
            }
            OPT_ABORT => {
                tell(REP_ACK, &[])?;
                return Ok(false);
            }
            _ => tell(REP_UNSUPPORTED, &[])?,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::log::{Format, Log};
    use crate::params::Params;
    use std::sync::atomic::AtomicBool;

    fn device() -> Arc<Device> {
        let path = std::env::temp_dir().join(format!(
            "spindle-nbd-{}-{:x}",
            std::process::id(),
            crate::device::now_s().to_bits()
        ));
        let file = std::fs::File::options().read(true).write(true).create_new(true).open(&path).unwrap();
        std::fs::remove_file(&path).unwrap();
        file.set_len(1 << 20).unwrap();
        let log = Log::new(None, Format::Csv).unwrap();
        Device::start(
            "d0",
            file,
            Params::preset("hdd7200", 1 << 20).unwrap(),
            Arc::new(AtomicBool::new(false)),
            log,
        )
        .unwrap()
    }

    fn request(link: &mut UnixStream, command: u16, cookie: u64, at: u64, len: u32, data: &[u8]) {
        let mut out = REQUEST_MAGIC.to_be_bytes().to_vec();
        out.extend_from_slice(&[0, 0]);
        out.extend_from_slice(&command.to_be_bytes());
        out.extend_from_slice(&cookie.to_be_bytes());
        out.extend_from_slice(&at.to_be_bytes());
        out.extend_from_slice(&len.to_be_bytes());
        out.extend_from_slice(data);
        link.write_all(&out).unwrap();
    }

    fn answer(link: &mut UnixStream, cookie: u64) -> u32 {
        assert_eq!(u32::from_be_bytes(number(link).unwrap()), REPLY_MAGIC);
        let errno = u32::from_be_bytes(number(link).unwrap());
        assert_eq!(u64::from_be_bytes(number(link).unwrap()), cookie);
        errno
    }

    #[test]
    fn a_client_negotiates_writes_reads_and_is_told_errors() {
        let (mut link, end) = UnixStream::pair().unwrap();
        let device = device();
        let served = Arc::clone(&device);
        let thread = std::thread::spawn(move || serve(end, &served));
        assert_eq!(&number::<8>(&mut link).unwrap(), b"NBDMAGIC");
        assert_eq!(u64::from_be_bytes(number(&mut link).unwrap()), OPTION_MAGIC);
        assert_eq!(u16::from_be_bytes(number(&mut link).unwrap()), 3);
        link.write_all(&3_u32.to_be_bytes()).unwrap();
        // Structured replies (8) are not spoken here; then GO with an empty name and no wishes.
        for (option, body) in [(8_u32, &[][..]), (OPT_GO, &[0, 0, 0, 0, 0, 0][..])] {
            link.write_all(&OPTION_MAGIC.to_be_bytes()).unwrap();
            link.write_all(&option.to_be_bytes()).unwrap();
            link.write_all(&(body.len() as u32).to_be_bytes()).unwrap();
            link.write_all(body).unwrap();
        }
        let mut replies = Vec::new();
        for _ in 0..4 {
            assert_eq!(u64::from_be_bytes(number(&mut link).unwrap()), OPTION_REPLY);
            let _option: [u8; 4] = number(&mut link).unwrap();
            let kind = u32::from_be_bytes(number(&mut link).unwrap());
            let len = u32::from_be_bytes(number(&mut link).unwrap());
            let mut body = vec![0; len as usize];
            link.read_exact(&mut body).unwrap();
            replies.push((kind, body));
        }
        assert_eq!(replies[0].0, REP_UNSUPPORTED);
        assert_eq!(replies[1].1[2..10], (1_u64 << 20).to_be_bytes());
        assert_eq!(
            u16::from_be_bytes([replies[1].1[10], replies[1].1[11]]) & FLAG_ROTATIONAL,
            FLAG_ROTATIONAL
        );
        assert_eq!(replies[3].0, REP_ACK);
        request(&mut link, 1, 11, 512, 4, b"abcd");
        assert_eq!(answer(&mut link, 11), 0);
        request(&mut link, 0, 12, 511, 6, &[]);
        assert_eq!(answer(&mut link, 12), 0);
        assert_eq!(&number::<6>(&mut link).unwrap(), b"\0abcd\0");
        request(&mut link, 0, 13, 1 << 20, 1, &[]);
        assert_eq!(answer(&mut link, 13), 5);
        request(&mut link, 3, 14, 0, 0, &[]);
        assert_eq!(answer(&mut link, 14), 0);
        device.with_faults(crate::fault::Faults::make_read_only);
        request(&mut link, 1, 15, 0, 1, b"x");
        assert_eq!(answer(&mut link, 15), 1);
        request(&mut link, 2, 0, 0, 0, &[]);
        thread.join().unwrap().unwrap();
        device.close();
    }
}
