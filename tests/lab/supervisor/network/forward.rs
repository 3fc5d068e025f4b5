//! From outside to the API server: a port of this machine, and a socket in the lab's folder by which
//! what arrives there gets into the namespaces of the lab.

use std::io;
use std::net::{Ipv4Addr, Shutdown, TcpListener, TcpStream};
use std::os::unix::net::{UnixListener, UnixStream};
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::thread;
use std::time::Duration;

use anyhow::Result;
use rustix::process::getppid;

use crate::remains;

/// What the end outside is told.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct Outside {
    port: u16,
    folder: PathBuf,
}

/// Starts the end outside. It ends with its parent, which is about to become the lab.
pub(crate) fn start(port: u16, folder: &Path) -> Result<()> {
    Command::new(std::env::current_exe()?)
        .arg("forward")
        .arg(port.to_string())
        .arg(folder)
        .env_remove(remains::MARK)
        .process_group(0)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()?;
    Ok(())
}

/// The end outside.
pub(crate) fn outside(ends: &Outside) -> Result<()> {
    let parent = getppid();
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, ends.port))?;
    let socket = socket(&ends.folder);
    thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            // While no API server is there the caller finds its connection closed, and tries again.
            let Ok(inner) = UnixStream::connect(&socket) else {
                continue;
            };
            thread::spawn(move || join(stream, inner));
        }
    });
    while getppid() == parent {
        thread::sleep(Duration::from_millis(50));
    }
    Ok(())
}

/// The end inside.
pub(crate) fn inside(port: u16, folder: &Path) -> Result<()> {
    let listener = UnixListener::bind(socket(folder))?;
    thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            thread::spawn(move || {
                if let Ok(inner) = TcpStream::connect((Ipv4Addr::LOCALHOST, port)) {
                    join(inner, stream)
                } else {
                    Ok(())
                }
            });
        }
    });
    Ok(())
}

fn socket(folder: &Path) -> PathBuf {
    folder.join("api.sock")
}

/// Copies in both directions until both have ended.
fn join(tcp: TcpStream, unix: UnixStream) -> io::Result<()> {
    tcp.set_nodelay(true)?;
    let (mut tcp_in, mut unix_out) = (tcp.try_clone()?, unix.try_clone()?);
    thread::spawn(move || {
        io::copy(&mut tcp_in, &mut unix_out).ok();
        unix_out.shutdown(Shutdown::Both).ok();
    });
    let (mut unix, mut tcp) = (unix, tcp);
    io::copy(&mut unix, &mut tcp).ok();
    tcp.shutdown(Shutdown::Both)
}
