import { Link, Outlet, useNavigate } from '@tanstack/react-router'
import { useEffect, useState } from 'react'
import { type Session, signOut, startSession, useIsOnline, useSession } from '../api/session.ts'
import { Icon } from '../ui/icon.tsx'
import { Menu } from '../ui/menu.tsx'
import { EmptyState, Loading } from '../ui/states.tsx'
import { OtherUser } from './other-user.tsx'
import { isTyping, ShortcutSheet } from './shortcuts.tsx'
import { SignIn } from './sign-in.tsx'
import { toggleTheme } from './theme.ts'
import { ToastList } from './toast-list.tsx'

/** The frame of every page, or what stands in its way: signing in, a server that is away or is not ours. */
export function Shell() {
  const session = useSession()
  const isOnline = useIsOnline()
  const [isHelpOpen, setHelpOpen] = useState(false)
  useGlobalKeys(() => setHelpOpen(true))
  return (
    <>
      <a className="skip" href="#main">
        Skip to the content
      </a>
      <TopBar session={session} openHelp={() => setHelpOpen(true)} />
      {!isOnline && session.status === 'ready' && (
        <p className="banner" role="status">
          The server does not answer. What you see is what was read last; this page continues on its own.
        </p>
      )}
      <main id="main" tabIndex={-1}>
        <Content session={session} />
      </main>
      <ToastList />
      {isHelpOpen && <ShortcutSheet onClose={() => setHelpOpen(false)} />}
    </>
  )
}

function Content({ session }: { readonly session: Session }) {
  switch (session.status) {
    case 'starting':
      return <Loading label="Connecting" />
    case 'offline':
      return (
        <EmptyState icon="warn" title="The server does not answer">
          <p>This page tries again every two seconds. Is the server running?</p>
          <button type="button" onClick={() => void startSession()}>
            Try now
          </button>
        </EmptyState>
      )
    case 'unknown-server':
      return (
        <EmptyState icon="warn" title="This console does not know this server">
          <p>Either it is older than this console, or something else answers at this address.</p>
        </EmptyState>
      )
    case 'signed-out':
      return <SignIn kind={session.kind} message={session.message} />
    case 'other-user':
      return <OtherUser message={session.message} token={session.token} />
    case 'ready':
      return <Outlet />
  }
}

function TopBar(props: { readonly session: Session; readonly openHelp: () => void }) {
  const { session, openHelp } = props
  const isReady = session.status === 'ready'
  const items = [
    { label: 'Dark or light', run: toggleTheme },
    { label: 'Keyboard shortcuts', run: openHelp },
    ...(isReady && session.canSignOut ? [{ label: 'Sign out', run: () => void signOut() }] : []),
  ]
  return (
    <header className="topbar">
      <Link to="/" className="brand">
        <Icon name="box" />
        Slipway
      </Link>
      {isReady && (
        <nav aria-label="Main">
          {session.kind === 'agent' ? (
            <>
              <Link to="/" activeOptions={{ exact: true, includeSearch: false }}>
                Conversations
              </Link>
              <Link to="/settings">Settings</Link>
            </>
          ) : (
            <>
              <Link to="/" activeOptions={{ exact: true, includeSearch: false }}>
                Sandboxes
              </Link>
              <Link to="/fleet/$section" params={{ section: 'conversations' }}>
                Conversations
              </Link>
              <Link to="/fleet/$section" params={{ section: 'keys' }}>
                Account
              </Link>
            </>
          )}
        </nav>
      )}
      <span className="spacer" />
      {isReady && session.user !== undefined && (
        <span className="user" title={`Signed in as ${session.user}`}>
          {session.user}
        </span>
      )}
      <Menu label="Menu of the console" button={<Icon name="more" />} items={items} />
    </header>
  )
}

export function NotFound() {
  return (
    <EmptyState icon="search" title="There is no such page">
      <Link to="/">To the first page</Link>
    </EmptyState>
  )
}

/** `?` shows the shortcuts, `g c` and `g s` go to pages, `n` begins a conversation. */
function useGlobalKeys(openHelp: () => void): void {
  const navigate = useNavigate()
  useEffect(() => {
    let prefix = ''
    const onKey = (event: KeyboardEvent) => {
      if (event.ctrlKey || event.metaKey || event.altKey || isTyping(event.target)) return
      const keys = prefix + event.key
      prefix = event.key === 'g' ? 'g' : ''
      if (event.key === '?') openHelp()
      else if (keys === 'gc') void navigate({ to: '/' })
      else if (keys === 'gs') void navigate({ to: '/settings' })
      else if (keys === 'n') void navigate({ to: '/new' })
      else return
      event.preventDefault()
    }
    document.addEventListener('keydown', onKey)
    return () => document.removeEventListener('keydown', onKey)
  })
}
