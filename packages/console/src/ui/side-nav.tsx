import { Link } from '@tanstack/react-router'

/** The sections of a page; each has an address. */
export function SideNav(props: {
  readonly label: string
  readonly to: '/settings/$section' | '/fleet/$section'
  /** Labels by name, in order. */
  readonly sections: Readonly<Record<string, string>>
  readonly current: string
}) {
  return (
    <nav aria-label={props.label} className="side-nav">
      {Object.entries(props.sections).map(([name, label]) => (
        <Link
          key={name}
          to={props.to}
          params={{ section: name }}
          aria-current={name === props.current ? 'page' : undefined}
        >
          {label}
        </Link>
      ))}
    </nav>
  )
}
