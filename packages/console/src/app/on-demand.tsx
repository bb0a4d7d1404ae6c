import type { AsyncRouteComponent } from '@tanstack/react-router'
import { type ComponentType, useEffect, useState } from 'react'
import { Loading } from '../ui/states.tsx'

/**
 * A component that shows that it is loading until its file is there. A `Suspense` would show it up to 300 ms
 * later: React holds back what replaces a fallback that was just painted.
 */
export function onDemand<P extends object>(Component: AsyncRouteComponent<P>): ComponentType<P> {
  return function OnDemand(props: P) {
    const [isLoading, setLoading] = useState(Component.preload !== undefined)
    useEffect(() => {
      void Promise.resolve(Component.preload?.()).then(() => setLoading(false))
    }, [])
    return isLoading ? <Loading /> : <Component {...props} />
  }
}
