const name = 'slipway-theme'

/** Dark or light as chosen before; otherwise as the system says. */
export function applyTheme(): void {
  const chosen = localStorage.getItem(name)
  if (chosen === 'dark' || chosen === 'light') document.documentElement.dataset.theme = chosen
}

export function toggleTheme(): void {
  const { dataset } = document.documentElement
  const isDark =
    dataset.theme === undefined
      ? matchMedia('(prefers-color-scheme: dark)').matches
      : dataset.theme === 'dark'
  dataset.theme = isDark ? 'light' : 'dark'
  localStorage.setItem(name, dataset.theme)
}
