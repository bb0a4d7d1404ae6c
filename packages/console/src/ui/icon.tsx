/** Line icons of 16 by 16, drawn for this console. */
const paths = {
  search: 'M7 12A5 5 0 1 0 7 2a5 5 0 0 0 0 10ZM11 11l3.5 3.5',
  plus: 'M8 3v10M3 8h10',
  close: 'M4 4l8 8M12 4l-8 8',
  down: 'M3.5 6 8 10.5 12.5 6',
  more: 'M3.5 8h.01M8 8h.01M12.5 8h.01',
  play: 'M5 3.5v9l7-4.5-7-4.5Z',
  pause: 'M5.5 3.5v9M10.5 3.5v9',
  stop: 'M4 4h8v8H4z',
  send: 'M2.5 8h11M9 3.5 13.5 8 9 12.5',
  image: 'M2.5 3h11v10h-11zM2.5 11l3.5-3.5 3 3 2-2 2.5 2.5M10.5 6h.01',
  attach:
    'M12.500 7.500 7.800 12.200a3 3 0 0 1-4.300-4.300l5-5a2 2 0 0 1 2.900 2.900l-5 5a1 1 0 0 1-1.500-1.500l4.400-4.400',
  copy: 'M5.5 5.5h8v8h-8zM10.5 5.5v-3h-8v8h3',
  fork: 'M4.5 2.5v11M4.5 8c0-2.5 7-1 7-5.5M11.5 2.5h.01',
  terminal: 'M2.5 4 6.5 8l-4 4M8 12.5h5.5',
  file: 'M4 1.5h5.5L12.5 5v9.5H4zM9 1.5V5h3.5',
  folder: 'M1.800 3.500h4.500l1.500 2h6.400v7.500h-12.400z',
  link: 'M6.500 9.500l3-3M7 5l2-2a2.800 2.800 0 0 1 4 4l-2 2M9 11l-2 2a2.800 2.800 0 0 1-4-4l2-2',
  edit: 'M11 2.5 13.5 5 6 12.5H3.5V10z',
  globe: 'M8 14A6 6 0 1 0 8 2a6 6 0 0 0 0 12ZM2 8h12M8 2c-4 4-4 8 0 12 4-4 4-8 0-12Z',
  tasks: 'M2.5 4 4 5.5 6.5 3M9 4.5h4.5M2.5 11 4 12.5 6.5 10M9 11.5h4.5',
  warn: 'M8 2 14.5 13.5h-13zM8 6.5v3M8 11.8h.01',
  check: 'M3 8.5 6.5 12 13 4.5',
  gear: 'M8 10.2a2.2 2.2 0 1 0 0-4.4 2.2 2.2 0 0 0 0 4.4ZM8 1.8v2M8 12.2v2M1.8 8h2M12.2 8h2M3.6 3.6 5 5M11 11l1.4 1.4M12.4 3.6 11 5M5 11l-1.4 1.4',
  user: 'M8 8a2.8 2.8 0 1 0 0-5.6A2.8 2.8 0 0 0 8 8ZM2.5 14c.5-3 2.5-4.2 5.5-4.2s5 1.2 5.5 4.2',
  spark: 'M8 1.8 9.6 6.4 14.2 8 9.6 9.6 8 14.2 6.4 9.6 1.8 8l4.6-1.6z',
  tool: 'M10.5 2.2a3.6 3.6 0 0 0-3.4 4.9L2.4 11.8l1.8 1.8 4.7-4.7a3.6 3.6 0 0 0 4.7-4.4L11.4 6.700 9.300 4.600z',
  panel: 'M2.5 3h11v10h-11zM9.500 3v10',
  filter: 'M2.500 3.500h11L9.500 8.500v4.500l-3-1.500v-3z',
  theme: 'M8 2a6 6 0 1 0 0 12zM8 2a6 6 0 0 1 0 12',
  upload: 'M8 10.500v-8M4.500 6 8 2.500 11.500 6M2.500 13.500h11',
  box: 'M8 1.800 14 5v6l-6 3.200L2 11V5zM2 5l6 3.200L14 5M8 8.200v6',
} as const

export type IconName = keyof typeof paths

export function Icon({ name }: { readonly name: IconName }) {
  return (
    <svg className="icon" viewBox="0 0 16 16" aria-hidden="true" focusable="false">
      <path d={paths[name]} />
    </svg>
  )
}
